"""A case of the fault table while it runs: its files, and the row that comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.doctor.cases import SAMPLE, Case
from support.doctor.fault_rows import Row, record, told
from support.doctor.faults import lines
from support.doctor.programs import ENDLESS, STEP, Place, program
from support.system.frozen_disk import disk_to_freeze, thaw
from torchdeck.agent.doctor.evidence import Kind
from torchdeck.contract.journal import Event

AFTER_A_PAUSE = 30
"""Steps of a healthy run after its pause."""


class Measured:
    """One case: the text of its program, and its row."""

    def __init__(self, case: Case, place: Place) -> None:
        self._case, self._place = case, place
        self.steps = ENDLESS if case.fault.hangs else STEP.get(case.program, 20) + AFTER_A_PAUSE
        self.text = program(
            case.program, case.fault, place, culprit=case.culprit, ranks=case.ranks, steps=self.steps
        )

    @contextmanager
    def thawing(self) -> Iterator[None]:
        """Thaw the disk at the end of the block, as no signal ends a process that waits for it."""
        try:
            yield
        finally:
            if self._place.disk:
                thaw(Path(self._place.disk))

    def hang(self, event: Event | None, file: str, text: str, *, strict: bool) -> None:
        """Record what was said of a hang first.

        Args:
            event: None: nothing.
            file: name of the program's file.
            text: the whole of it.
            strict: fail if it is not right.
        """
        case = self._case
        expected = tuple(f"{file}:{line} fault" for line in lines(text)) if case.fault.line else ()
        found = {} if event is None else told(event.fields, expected)
        row = Row(
            case.fault.name,
            case.program,
            case.ranks,
            str(case.fault.kind),
            None if case.fault.everywhere else case.culprit,
            expected,
            seconds=None if event is None else round(event.time - self._began(), 2),
            **found,
        )
        record(row, strict=strict)

    def healthy(self, hangs: Sequence[Event], *, strict: bool) -> None:
        """Record that nothing was said of a pause, or what was."""
        self._began()  # it was there
        found: Mapping[str, Any] = told(hangs[0].fields, ()) if hangs else {}
        record(Row(self._case.fault.name, self._case.program, self._case.ranks, "", **found), strict=strict)

    def _began(self) -> float:
        """Return when the fault began, in seconds since the epoch."""
        return float(Path(self._place.began).read_text())


@contextmanager
def measured(case: Case, folder: Path) -> Iterator[Measured]:
    """The case with its files in `folder`; a disk is thawed at the end of the block."""
    with ExitStack() as stack:
        disk = stack.enter_context(disk_to_freeze(folder)) if case.fault.kind is Kind.DISK else ""
        yield Measured(case, Place(str(folder / "began"), str(disk)))


def marked(cases: Sequence[Case]) -> list[Any]:
    """Return the parameters of a test: cases that are not in the sample run in a soak only."""
    found = []
    for case in cases:
        marks = [] if case in SAMPLE else [pytest.mark.soak]
        if case.fault.kind is Kind.DISK:
            marks.append(pytest.mark.root)
        found.append(pytest.param(case, id=case.name, marks=marks))
    return found
