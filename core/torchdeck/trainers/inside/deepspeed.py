"""Loops on DeepSpeed's engine: the steps that it counts, and a stop that saves as the program does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.inside.accelerate_loop import NAME as ACCELERATE
from torchdeck.trainers.inside.report import Report
from torchdeck.trainers.inside.stop_agreement import StopAgreement, save_at_stop

NAME = "DeepSpeed"


def add(module: ModuleType, report: Report) -> None:
    """Report each engine's own number of steps, which a loaded checkpoint restores, and save at a stop.

    Args:
        module: `deepspeed.runtime.engine`.
        report: of this rank.
    """
    engine, loop = module.DeepSpeedEngine, Loop(report)
    # called at the end of accumulation, also by the engine for pipelines
    engine._take_model_step = _calling(  # noqa: SLF001 - no public call is made per optimizer step
        engine._take_model_step,  # noqa: SLF001 - as above
        report,
        before=loop.trains,
        after=loop.stepped,
    )
    engine.save_checkpoint = _calling(engine.save_checkpoint, report, before=loop.saves, after=loop.saved)
    forward = engine.forward

    @functools.wraps(forward)
    def forward_unless_stopped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if report.guarded(NAME, "stop", loop.saved_for_stop, self):
            raise SystemExit(0)
        return forward(self, *args, **kwargs)

    engine.forward = forward_unless_stopped


def _calling(
    original: Callable[..., Any], report: Report, *, before: Callable[..., None], after: Callable[..., None]
) -> Callable[..., Any]:
    """Return a method that also calls `before` and `after` with its own arguments."""
    what = original.__name__

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        report.guarded(NAME, what, before, *args, **kwargs)
        done = original(*args, **kwargs)
        report.guarded(NAME, what, after, *args, **kwargs)
        return done

    return method


class _Saved(NamedTuple):
    """The last checkpoint that the program saved."""

    folder: str
    """Its parent, as the program named it."""
    step: int
    options: Mapping[str, Any]
    is_of_engine: bool
    """Named after the step by DeepSpeed's rule, with no state of the program's own."""
    files: frozenset[str]
    """Names that DeepSpeed wrote; known on rank 0."""


class Loop:
    """Follows the calls that a program makes; its methods have the arguments of what was called."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stop = StopAgreement(report.stop_file, "deepspeed")
        self._engines: set[int] = set()
        """Those that have stepped, by identity."""
        self._saved: _Saved | None = None
        self._is_whole: bool | None = None
        """The program put nothing else into it; None before that is known."""
        self._asked = -1
        """Step after which a stop was last looked for."""

    def trains(self, engine: Any, *_: Any, **__: Any) -> None:
        self._count(engine, RankPhase.TRAINING)

    def stepped(self, engine: Any, *_: Any, **__: Any) -> None:
        self._engines.add(id(engine))
        self._count(engine, RankPhase.TRAINING)

    def saves(self, engine: Any, *_: Any, **__: Any) -> None:
        self._count(engine, RankPhase.SAVING)

    def saved(
        self,
        engine: Any,
        save_dir: Any,
        tag: Any = None,
        client_state: Any = None,
        *more: Any,
        **options: Any,
    ) -> None:
        self._count(engine, RankPhase.TRAINING)
        step = engine.global_steps
        is_of_engine = tag in (None, _tag(step)) and not client_state and not more
        is_known = is_of_engine and engine.global_rank == 0  # other nodes may not see all of them
        files = _names(save_dir, step) if is_known else frozenset()
        self._saved = _Saved(str(save_dir), step, options, is_of_engine, files)
        self._is_whole = None

    def saved_for_stop(self, engine: Any) -> bool:
        """Save if a stop is requested; whether the program is to end now.

        That is when it begins the forward pass after a step: all that it does in a step is done then.

        Raises:
            SystemExit: the checkpoint could not be saved, and the other ranks end.
        """
        step = engine.global_steps
        if step == self._asked or not self._engines or not _trains(engine) or not self._claims():
            return False
        self._asked = step
        # rank 0 decides, once: it must end with the others, whatever the program saves in the last step
        if engine.global_rank == 0 and not self._stop.is_decided and not self._can_save():
            return False
        if not self._stop.reached(step):
            return False
        with save_at_stop():
            self._end(engine, step)
        return True

    def _end(self, engine: Any, step: int) -> None:
        """Save as the program did, unless it has in this step, and wait for the other ranks."""
        last = self._saved
        if last is not None and last.step != step:
            engine.save_checkpoint(last.folder, **last.options)
        self._stop.wait_for_all()
        self._report.count(step, phase=RankPhase.STOPPING)

    def _can_save(self) -> bool:
        """Return whether a checkpoint like the program's last one has all that it continues from."""
        last = self._saved
        if self._report.stop_file is None or last is None or len(self._engines) > 1:
            self._report.saves_on_stop(saves=False)
            return False
        if self._is_whole is None:  # this is the first forward pass after that save
            is_latest = last.is_of_engine and _latest(last.folder) == _tag(last.step)
            self._is_whole = is_latest and last.files >= _names(last.folder, last.step)
        self._report.saves_on_stop(saves=self._is_whole)
        return self._is_whole

    def _count(self, engine: Any, phase: RankPhase) -> None:
        if self._claims():
            self._report.count(engine.global_steps, phase=phase)

    def _claims(self) -> bool:
        return self._report.claims(NAME, over=(ACCELERATE,))


def _tag(step: int) -> str:
    """Return the name that DeepSpeed gives a checkpoint."""
    return f"global_step{step}"


def _names(folder: Any, step: int) -> frozenset[str]:
    return frozenset(path.name for path in (Path(folder) / _tag(step)).iterdir())


def _latest(folder: str) -> str:
    """Return the checkpoint that DeepSpeed loads by itself; empty if there is none."""
    try:
        return (Path(folder) / "latest").read_text().strip()
    except FileNotFoundError:
        return ""


def _trains(engine: Any) -> bool:
    """Return whether this is no forward pass of an evaluation."""
    return bool(engine.training and sys.modules["torch"].is_grad_enabled())
