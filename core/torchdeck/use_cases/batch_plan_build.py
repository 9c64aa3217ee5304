"""Building the batch plan that a run file names, by `torchdeck batchplan build` in a process of its own."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.config.schema import RunConfig
from torchdeck.config.starts.run_file import run_file_table, run_file_text
from torchdeck.contract.refusal import Refusal

RECIPE = "byte-finetune"
"""The built-in recipe whose samples `batchplan build --run` knows."""
BATCH_PLAN = "training.batch_plan"
_GLANCE = 0.25
"""Seconds between two looks whether it is still wanted."""
_GRACE = 2.0
"""Seconds that it gets to take away what it has begun."""
_SAYS = "torchdeck batchplan build: "


class BuildError(Refusal):
    """There is no batch plan; the message says why."""

    page = "data#batch-plans"


@dataclass(frozen=True)
class PlanOptions:
    """How the plan is made, where the run file does not say."""

    token_budget: int
    """Tokens of a microbatch, at most."""
    pack: bool = True
    """Lay several samples in one row, so that less is padding."""

    @property
    def words(self) -> tuple[str, ...]:
        """As options of the command."""
        return (*(("--pack",) if self.pack else ()), "--token-budget", str(self.token_budget))


def can_be_built(config: RunConfig) -> bool:
    """Whether the run names a batch plan that can be made of its own data."""
    return config.run.recipe == RECIPE and config.training.batch_plan is not None


def usual_options(config: RunConfig) -> PlanOptions:
    """What suits a run to begin with: microbatches of eight of its longest samples."""
    return PlanOptions(8 * int(config.model["context"]))


def by_hand(run_file: str, options: PlanOptions) -> str:
    """The command that does the same, on two lines."""
    command = shlex.join(["torchdeck", "batchplan", "build", "--run", run_file])
    return f"{command} \\\n    {shlex.join(options.words)}"


def build_in_process(config: RunConfig, options: PlanOptions, on_progress: Callable[[str], None]) -> None:
    """Build the plan of `config` where it names it; a plan that lies there is replaced.

    Args:
        config: a run file that is right, its paths absolute.
        options: how.
        on_progress: told what is done, often; what it raises ends the building, and nothing is written.

    Raises:
        BuildError: it cannot be built.
        OSError: the process cannot be started.
    """
    with TemporaryDirectory(prefix="torchdeck-") as name:
        run_file, said = Path(name, "run.toml"), Path(name, "said")
        # what is edited may lie in no file; written anew its paths hold wherever it lies
        run_file.write_text(run_file_text(_essence(config)), encoding="utf-8")
        argv = (sys.executable, "-P", "-m", "torchdeck.cli.main", "batchplan", "build", "--overwrite")
        with said.open("wb") as errors:
            process = ChildProcess([*argv, "--run", str(run_file), *options.words], stderr=errors)
        try:
            while (code := process.exit_code(_GLANCE)) is None:
                on_progress(_last_line(said) or "reading the data")
        finally:
            process.end(signal.SIGINT, _GRACE)  # interrupted it leaves nothing half written
        if code:
            why = _last_line(said).removeprefix(_SAYS).replace(str(run_file), "the run file")
            raise BuildError(why or f"it ended with exit code {code}")


def _essence(config: RunConfig) -> dict[str, Any]:
    """What of a run its batch plan is made of."""
    table = run_file_table(config)
    training = {key: table["training"].get(key) for key in ("batch_plan", "epochs", "steps")}
    parts = {"run": {"recipe": RECIPE}, "model": config.model, "data": config.data, "training": training}
    return {
        name: {key: value for key, value in part.items() if value is not None} for name, part in parts.items()
    }


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
