"""What a rank is doing, told to the hooks."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.distributed.trainer.hooks import Hook


class Phases:
    """Tells hooks of phases, with the step and how many there are.

    Args:
        hooks: who is told.
        compiles: the model is compiled, so the first batch of each size may take minutes.
    """

    def __init__(self, hooks: Sequence[Hook], *, compiles: bool) -> None:
        self._hooks = hooks
        self._compiles = compiles
        self._sizes_seen: set[tuple[str, int]] = set()
        self.total: int | None = None

    def enter(self, phase: str, step: int) -> None:
        """`phase` began, or is alive still."""
        for hook in self._hooks:
            hook.phase(phase, step, self.total)

    def compute(self, phase: str, step: int, samples: int) -> None:
        """A forward pass of `samples` samples is next, in "training" or "evaluating".

        Where torch.compile will be at work the phase is "compiling", which no watchdog takes for a hang.
        """
        if self._compiles and (phase, samples) not in self._sizes_seen:
            self._sizes_seen.add((phase, samples))
            phase = "compiling"
        self.enter(phase, step)
