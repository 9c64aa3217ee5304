"""Current phase of a rank, reported to the hooks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from torchdeck.contract.run_states import RankPhase
from torchdeck.distributed.trainer.callback import Callback


class Phases:
    """Reports phases to hooks, with the step and the total.

    Args:
        hooks: hooks to notify.
        compiles: the model is compiled, so the first batch of each shape may take minutes.
    """

    def __init__(self, hooks: Sequence[Callback], *, compiles: bool) -> None:
        self._hooks = hooks
        self._compiles = compiles
        self._shapes_seen: set[tuple[RankPhase, Hashable]] = set()
        self.total: int | None = None

    def enter(self, phase: RankPhase, step: int) -> None:
        """Report that `phase` began or is still alive."""
        for hook in self._hooks:
            hook.phase(phase, step, self.total)

    def compute(self, phase: RankPhase, step: int, shapes: Callable[[], Iterable[Hashable]]) -> None:
        """Report that forward passes follow, in TRAINING or EVALUATING; `shapes` distinguishes their batches.

        If torch.compile will run, the phase is COMPILING, which no watchdog treats as a hang.
        """
        if self._compiles:
            new = {(phase, shape) for shape in shapes()} - self._shapes_seen
            self._shapes_seen |= new
            phase = RankPhase.COMPILING if new else phase
        self.enter(phase, step)
