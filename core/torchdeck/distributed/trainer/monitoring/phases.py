"""What a rank is doing, told to the hooks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from torchdeck.contract.run_states import RankPhase
from torchdeck.distributed.trainer.callback import Callback


class Phases:
    """Tells hooks of phases, with the step and how many there are.

    Args:
        hooks: who is told.
        compiles: the model is compiled, so the first batch of each shape may take minutes.
    """

    def __init__(self, hooks: Sequence[Callback], *, compiles: bool) -> None:
        self._hooks = hooks
        self._compiles = compiles
        self._shapes_seen: set[tuple[RankPhase, Hashable]] = set()
        self.total: int | None = None

    def enter(self, phase: RankPhase, step: int) -> None:
        """`phase` began, or is alive still."""
        for hook in self._hooks:
            hook.phase(phase, step, self.total)

    def compute(self, phase: RankPhase, step: int, shapes: Callable[[], Iterable[Hashable]]) -> None:
        """Forward passes are next, in TRAINING or EVALUATING; `shapes` tells their batches apart.

        If torch.compile will be at work, the phase is COMPILING, which no watchdog takes for a hang.
        """
        if self._compiles:
            new = {(phase, shape) for shape in shapes()} - self._shapes_seen
            self._shapes_seen |= new
            phase = RankPhase.COMPILING if new else phase
        self.enter(phase, step)
