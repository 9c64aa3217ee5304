"""Hooks on the FSDP units that mark where forward and backward of each begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from torchdeck.contract.plan.model_profile import ROOT, Event
from torchdeck.tracing.units import UnitMap

Note = Callable[[Event, int], None]
"""(what, unit)."""


class Marks:
    """Tells `note` of each unit's forward and backward.

    Backward of the root is the whole of it, from `begin_backward` to `end_backward`, where FSDP reduces its
    gradients too. A unit's backward ends when all of its trainable parameters have their gradient; that of a
    unit without any, when the gradient of what came in is there; and of a unit for which neither comes, with
    `end_backward`.
    """

    def __init__(self, units: UnitMap, note: Note) -> None:
        self._units = units
        self._note = note
        self._waiting = [
            {id(parameter) for parameter in members if parameter.requires_grad}
            for members in units.parameters
        ]
        self._open: set[int] = set()
        """Units whose backward began and has not ended."""
        self._handles: list[RemovableHandle] = []
        for index, module in enumerate(units.modules):
            self._attach(index, module, units.parameters[index])

    def begin_backward(self) -> None:
        """The loss is there."""
        self._begin(ROOT)

    def end_backward(self) -> None:
        """Nothing will follow; units that wait for a gradient that never came end now, the root last."""
        for unit in sorted(self._open, reverse=True):
            self._end(unit)

    def remove(self) -> None:
        """Take all hooks off."""
        for handle in self._handles:
            handle.remove()

    def _attach(self, unit: int, module: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        handles, trainable = self._handles, self._waiting[unit]

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            self._note(Event.FORWARD_BEGIN, unit)
            if not trainable and unit != ROOT:
                self._watch((args, kwargs), lambda: self._end(unit))

        def after(_: nn.Module, __: Any, output: Any) -> None:
            self._note(Event.FORWARD_END, unit)
            if unit != ROOT:
                self._watch(output, lambda: self._begin(unit))

        handles.append(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
        for parameter in parameters:
            if parameter.requires_grad:
                arrived = partial(self._arrived, unit)
                handle = parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                handles.append(handle)

    @staticmethod
    def _watch(tree: Any, act: Callable[[], None]) -> None:
        """Call `act` when the gradient of any tensor in `tree` is there."""
        for leaf in tree_leaves(tree):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                leaf.register_hook(lambda _: act())  # type: ignore[no-untyped-call]

    def _arrived(self, unit: int, parameter: Tensor) -> None:
        waiting = self._waiting[unit]
        waiting.discard(id(parameter))
        if not waiting and unit != ROOT:
            self._end(unit)

    def _begin(self, unit: int) -> None:
        if unit not in self._open:
            self._open.add(unit)
            self._note(Event.BACKWARD_BEGIN, unit)

    def _end(self, unit: int) -> None:
        if unit in self._open:
            self._open.remove(unit)
            self._note(Event.BACKWARD_END, unit)


@contextmanager
def marked(units: UnitMap, note: Note) -> Iterator[Marks]:
    """Hooks on all units for as long as the block lasts."""
    marks = Marks(units, note)
    try:
        yield marks
    finally:
        marks.remove()
