"""A loop on Hugging Face Accelerate: its steps, how it names its checkpoints, and its stop.

Only the program knows what its checkpoints need, so a stop saves one only if it is like those before: the
program saved by `save_state` into a folder with the step in its name, and put nothing else there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.report import Report
from torchdeck.trainers.inside.stop_agreement import StopAgreement, save_at_stop
from torchdeck.trainers.inside.torch_optimizer import OptimizerSteps

NAME = "Accelerate"
_NUMBERED = re.compile(r"(.*?)(\d+)/*", re.DOTALL)


class _Saved(NamedTuple):
    """A checkpoint that the program saved."""

    accelerator: Any
    prefix: str
    """Its path, without the step."""
    step: int
    options: Mapping[str, Any]
    files: frozenset[str]
    """Names that `save_state` wrote."""


class Loop:
    """Follows the calls that a program makes; its methods have the arguments of what was called."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._counted = OptimizerSteps(report)
        self._loaded = 0
        """Step of the checkpoint that the program loaded, less those that were counted until then."""
        self._saved: _Saved | None = None
        self._is_whole: bool | None = None
        """The program put nothing else into it; None before that is known."""
        self._stop = StopAgreement(report.stop_file, "accelerate")
        self._rank = 0

    @property
    def steps(self) -> int:
        """Optimizer steps in this process."""
        return self._counted.most

    def stepped(self, optimizer: Any, *_: Any, **__: Any) -> None:
        if optimizer.gradient_state.sync_gradients and self._reports():
            self._rank = optimizer.accelerator_state.process_index
            self._counted.stepped(optimizer)

    def log(self, _accelerator: Any, values: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> None:
        if step is not None and self._reports():
            self._report.metrics(values, int(step))

    def load(self, _accelerator: Any, input_dir: Any = None, *_: Any, **__: Any) -> None:
        found = _NUMBERED.fullmatch(os.fspath(input_dir or ""))
        self._loaded = int(found[2]) - self.steps if found else 0

    def save(self, *_: Any, **__: Any) -> None:
        if self._reports():
            self._report.count(self.steps, phase=RankPhase.SAVING)

    def saved(self, accelerator: Any, output_dir: Any = None, *more: Any, **options: Any) -> None:
        if not self._reports():
            return
        self._report.count(self.steps)
        found = None if more else _NUMBERED.fullmatch(os.fspath(output_dir or ""))
        if found is None or accelerator.project_configuration.automatic_checkpoint_naming:
            return
        step = int(found[2])
        files = _names(output_dir)
        like = self.steps > 0 and step == self._loaded + self.steps
        self._saved = _Saved(accelerator, found[1], step, options, files) if like else None
        self._is_whole = None

    def end(self, *_: Any, **__: Any) -> None:
        self._report.saves_on_stop(saves=False)

    def saved_for_stop(self) -> bool:
        """Save if a stop is requested, at the end of a step; whether the program is to end now.

        Raises:
            SystemExit: the checkpoint could not be saved, and the other ranks end.
        """
        # rank 0 decides, once: it must end with the others, whatever the program saves in the last step
        if self._rank == 0 and not self._stop.is_decided and not self._saves():
            return False
        if not self._stop.reached(self.steps):
            return False
        with save_at_stop():
            self._end()
        return True

    def _end(self) -> None:
        """Save as the program did, if it did and has not in this step, and wait for the other ranks."""
        step, last = self._loaded + self.steps, self._saved
        if last is not None and last.step != step:  # in many programs rank 0 saves alone
            last.accelerator.save_state(f"{last.prefix}{step}", **last.options)
        self._stop.wait_for_all()
        self._report.count(self.steps, phase=RankPhase.STOPPING)
        if last is not None:
            last.accelerator.end_training()

    def _saves(self) -> bool:
        """Return whether a checkpoint of the kind that the program saves can be saved here."""
        if self._saved is None or self._report.stop_file is None:
            self._report.saves_on_stop(saves=False)
            return False
        if self._is_whole is None:  # this is the first end of a step since that save
            self._is_whole = self._saved.files >= _names(f"{self._saved.prefix}{self._saved.step}")
            self._report.saves_on_stop(saves=self._is_whole)
        return self._is_whole

    def _reports(self) -> bool:
        return self._report.claims(NAME, counted=True)


def _names(folder: str) -> frozenset[str]:
    return frozenset(path.name for path in Path(folder).iterdir())
