"""The run this rank belongs to, from the environment the plan gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.distributed.checked import SettingsError
from torchdeck.rundir.layout import AttemptLayout, RankLayout, RunLayout


@dataclass(frozen=True)
class RunContext:
    """Names and folders of the run; without a run directory (a hand-started rank) nothing is reported."""

    run_id: str = ""
    run_dir: Path | None = None
    attempt: int = 0
    resume: Path | None = None
    """Checkpoint to go on from."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> RunContext:
        """TORCHDECK_RUN_ID, _RUN_DIR, _ATTEMPT and _RESUME; an empty text is as good as none.

        Raises:
            SettingsError: the attempt is not a number.
        """
        folder, resume = environment.get("TORCHDECK_RUN_DIR"), environment.get("TORCHDECK_RESUME")
        attempt = environment.get("TORCHDECK_ATTEMPT") or "0"
        if not attempt.isdecimal():
            raise SettingsError(f"TORCHDECK_ATTEMPT must be a number from 0, not {attempt!r}")
        return cls(
            run_id=environment.get("TORCHDECK_RUN_ID", ""),
            run_dir=Path(folder) if folder else None,
            attempt=int(attempt),
            resume=Path(resume) if resume else None,
        )

    @property
    def attempt_layout(self) -> AttemptLayout | None:
        return RunLayout(self.run_dir).attempt(self.attempt) if self.run_dir else None

    @property
    def stop_file(self) -> Path | None:
        """Appears when the ranks should finish the step, save and exit."""
        layout = self.attempt_layout
        return layout.stop if layout else None

    def rank_layout(self, rank: int) -> RankLayout | None:
        layout = self.attempt_layout
        return layout.rank(rank) if layout else None
