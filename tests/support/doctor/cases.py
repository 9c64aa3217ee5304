"""The cases of the fault table: each fault in each program, on 2, 3 or 4 ranks. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from support.doctor.faults import FAULTS, HEALTHY, Fault
from support.doctor.programs import PROGRAMS, REPORTS
from torchdeck.agent.doctor.evidence import Kind

SEED = 17


class Case(NamedTuple):
    """One fault in one program."""

    fault: Fault
    program: str
    ranks: int
    culprit: int

    @property
    def name(self) -> str:
        return f"{self.fault.name}-{self.program}"


def table() -> list[Case]:
    """Return all cases. Number of ranks and culprit depend on the place in the table alone."""
    return [
        _case(number, fault, offset, program)
        for number, fault in enumerate((*FAULTS, *HEALTHY))
        for offset, program in enumerate(PROGRAMS)
    ]


def _case(number: int, fault: Fault, offset: int, program: str) -> Case:
    ranks = 2 + (number + offset) % 3
    if fault.kind is Kind.MISMATCH:  # of two ranks that differ neither is the odd one
        ranks = max(ranks, 3)
    # where only rank 0 prints it is the culprit: the others' silence is no sign of a fault
    return Case(fault, program, ranks, 0 if program == "prints" else (number + offset + 1) % ranks)


def of(*programs: str, hangs: bool = True) -> list[Case]:
    """Return the cases of these programs: hangs, or healthy pauses."""
    return [case for case in table() if case.program in programs and case.fault.hangs is hangs]


def spread(cases: Sequence[Case], count: int, seed: int = SEED) -> list[Case]:
    """Return at most `count` cases by a fixed seed: of each program as many, and of all faults."""
    left = list(cases)
    random.Random(seed).shuffle(left)  # noqa: S311 - the same ones every time
    chosen: list[Case] = []
    while left and len(chosen) < count:
        programs = [case.program for case in chosen]
        faults = [case.fault for case in chosen]
        case = min(left, key=lambda case: (programs.count(case.program), faults.count(case.fault)))
        left.remove(case)
        chosen.append(case)
    return chosen


def _sample() -> frozenset[Case]:
    hangs = [case for case in table() if case.fault.hangs and case.fault.kind is not Kind.DISK]
    drawn = spread(hangs, len(PROGRAMS))
    # of the two trainers of other projects one: half a minute of imports
    chosen = (case for case in drawn if case.program != "lightning")
    return frozenset((*chosen, *spread(of(*REPORTS, hangs=False), 1)))


SAMPLE = _sample()
"""Cases of a normal run, which must be right, each of them: a hang in each program but Lightning and
one healthy pause, by the fixed seed. Faults that need root are not drawn.
"""
