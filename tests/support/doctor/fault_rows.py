"""What came out for each case of the fault table: one JSON file per case, rates over all of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = "TORCHDECK_FAULT_ROWS"
"""Environment variable that names the folder of rows."""
RIGHT, SECONDS = 0.95, 30.0
"""Share of hangs that is right at least, and the 95th percentile of seconds to the verdict at most."""


@dataclass(frozen=True)
class Row:
    """One case: what was expected, and what the first verdict said.

    Args:
        fault: its name.
        program: the program, or where it ran.
        ranks: how many.
        kind: class that is expected; empty: no verdict, as it is no hang.
        rank: rank that is expected; None: any.
        lines: `train.py:12` that may be named; empty: any.
        told_kind: class; empty: there was no verdict.
        told_rank: rank.
        told_line: the line that was named, of those that are expected if it is among them.
        seconds: from the fault to the verdict; None: there was none.
        sentence: the verdict's sentence.
    """

    fault: str
    program: str
    ranks: int
    kind: str
    rank: int | None = None
    lines: tuple[str, ...] = ()
    told_kind: str = ""
    told_rank: int | None = None
    told_line: str = ""
    seconds: float | None = None
    sentence: str = ""

    @property
    def kind_right(self) -> bool:
        return self.told_kind == self.kind

    @property
    def rank_right(self) -> bool:
        return self.rank is None or self.told_rank == self.rank

    @property
    def line_right(self) -> bool:
        return not self.lines or self.told_line in self.lines

    @property
    def right(self) -> bool:
        return self.kind_right and self.rank_right and self.line_right


def told(fields: Mapping[str, Any], lines: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a row that a `hang` event has."""
    sentence = str(fields["detail"])
    named = [line for line in lines if line in sentence]
    return {
        "told_kind": str(fields["kind"]),
        "told_rank": fields["rank"],
        "told_line": named[0] if named else "",
        "sentence": sentence,
    }


def record(row: Row, *, strict: bool) -> None:
    """Write the row if a folder is named.

    Args:
        row: the case.
        strict: fail if it is not right; the rates judge the other rows, and how late all come.
    """
    if folder := os.environ.get(FOLDER):
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(row), ensure_ascii=False, indent=1)
        (Path(folder) / f"{row.fault}-{row.program}.json").write_text(text, encoding="utf-8")
    if strict or not folder:
        assert row.right, row
        assert not row.kind or row.seconds is not None, row


def rows(folder: Path) -> list[Row]:
    """Return all rows of a folder."""
    values = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [Row(**{**value, "lines": tuple(value["lines"])}) for value in values]


def p95(found: Sequence[Row]) -> float:
    """Return the 95th percentile of seconds to the verdict; infinite if it lies among rows without one."""
    seconds = sorted(math.inf if row.seconds is None else row.seconds for row in found)
    return seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else 0.0


def complaints(found: Sequence[Row]) -> list[str]:
    """Return in what the rows miss the goals."""
    hangs, healthy = [row for row in found if row.kind], [row for row in found if not row.kind]
    right, alarms = sum(row.right for row in hangs), sum(not row.right for row in healthy)
    missed = []
    if hangs and right < RIGHT * len(hangs):
        missed.append(f"{right} of {len(hangs)} hangs are right, goal {RIGHT:.0%}")
    if p95(hangs) > SECONDS:
        missed.append(f"the 95th percentile is {p95(hangs):.1f} s, goal {SECONDS:g} s")
    if alarms:
        missed.append(f"{alarms} false alarms in {len(healthy)} healthy runs, goal 0")
    return missed


def markdown(found: Sequence[Row]) -> str:
    """Return the table, and below it each row that is wrong."""
    programs = sorted({row.program for row in found})
    lines = [
        "| program | hangs | rank right | class right | line right | all right | p95 | false alarms |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(program, [row for row in found if row.program == program]) for program in programs),
    ]
    if len(programs) > 1:
        lines.append(_line("all", found))
    wrong = [row for row in found if not row.right]
    lines += ["", *(f"- {row.fault}, {row.program}, {row.ranks} ranks: {_difference(row)}" for row in wrong)]
    return "\n".join(lines).rstrip() + "\n"


def _line(name: str, found: Sequence[Row]) -> str:
    hangs, healthy = [row for row in found if row.kind], [row for row in found if not row.kind]
    with_line = [row for row in hangs if row.lines]
    alarms = f"{sum(not row.right for row in healthy)} of {len(healthy)}" if healthy else "–"
    late = "none" if math.isinf(p95(hangs)) else f"{p95(hangs):.1f} s"
    cells = [
        name,
        str(len(hangs)),
        _share([row.rank_right for row in hangs]),
        _share([row.kind_right for row in hangs]),
        _share([row.line_right for row in with_line]),
        _share([row.right for row in hangs]),
        late if hangs else "–",
        alarms,
    ]
    return f"| {' | '.join(cells)} |"


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)}" if right else "–"


def _difference(row: Row) -> str:
    expected = [row.kind or "no verdict", "any rank" if row.rank is None else f"rank {row.rank}", *row.lines]
    came = [row.told_kind, f"rank {row.told_rank}", row.told_line] if row.told_kind else ["no verdict"]
    sentence = f" ({row.sentence})" if row.sentence else ""
    return f"expected {', '.join(expected)}; told {', '.join(word for word in came if word)}{sentence}"
