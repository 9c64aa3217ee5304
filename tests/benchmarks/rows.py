"""One measured thing, its peer, and what is wanted of it; a table of them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What a benchmark found.

    Attributes:
        name: what was measured.
        ours: Torchdeck's figure.
        unit: of `ours` and `peer`.
        peer: the peer's figure, from the same run on the same machine.
        peer_name: who the peer is.
        ratio: how ours compares with the peer's.
        wanted: the goal for `ratio`; None if nothing is judged.
        lower_is_better: the goal is an upper limit, not a lower one.
        goal_is_absolute: the goal is for `ours`, not for `ratio`; so it is, too, where there is no ratio.
    """

    name: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    ratio: float | None = None
    wanted: float | None = None
    lower_is_better: bool = False
    goal_is_absolute: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.wanted is None:
            return None
        judged = self.ours if self.goal_is_absolute or self.ratio is None else self.ratio
        return judged <= self.wanted if self.lower_is_better else judged >= self.wanted


def table(rows: Sequence[Row]) -> str:
    """The rows as text, in columns."""
    cells = [("", "ours", "", "peer", "", "ratio", "goal", "")]
    for row in rows:
        sign = "≤" if row.lower_is_better else "≥"
        cells.append(
            (
                row.name,
                _number(row.ours),
                row.unit,
                _number(row.peer),
                row.peer_name,
                _ratio(row.ratio),
                "" if row.wanted is None else f"{sign} {_ratio(row.wanted)}",
                {True: "met", False: "MISSED", None: ""}[row.met],
            )
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    right = (False, True, False, True, False, True, False, False)
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    )
    return "\n".join(lines)


def _ratio(value: float | None) -> str:
    """Costs of a few thousandths are visible."""
    return _number(value) if value is None or not 0.98 < value < 1.02 else f"{value:.4f}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
