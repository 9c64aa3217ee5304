"""Strategies side by side: what each would need and send."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.plan.memory.spec import Kind
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.strategies import StrategyRow, compare_strategies
from torchdeck.quantities import brief, size
from torchdeck_app.launch.preview.memory.bar_rows import BarRow

COMPARED: tuple[Kind, ...] = ("ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3")


def compared(preview: Preview) -> tuple[StrategyRow, ...]:
    """Every strategy, the chosen one among them.

    Raises:
        ValueError: nothing is known of the model.
    """
    own = None if preview.spec is None else preview.spec.kind
    alone: tuple[Kind, ...] = ("single",) if own == "single" else ()
    return compare_strategies(preview, (*alone, *COMPARED))


def strategy_rows(rows: Sequence[StrategyRow], *, can_apply: bool) -> list[BarRow]:
    """How they are shown; `can_apply`: a strategy may be written into the run file."""
    return [
        BarRow(
            row.name,
            row.compared.worst,
            below=row.compared.problem or _sends(row),
            chosen=row.chosen,
            choice=row.compared.spec.kind if can_apply and not row.compared.problem else "",
        )
        for row in rows
    ]


def _sends(row: StrategyRow) -> str:
    """`12.0 GiB stay between steps; sends 1.2 GiB a step, 0.4 GiB between nodes, 80 ms`."""
    group = row.compared.worst
    text = "" if group is None else f"{size(sum(group.state.values()))} stay between steps"
    if row.traffic is None:
        return text
    text += f"; sends {size(row.traffic.sent)} a step"
    if row.traffic.between:
        text += f", {size(row.traffic.between)} between nodes"
    return text if row.traffic.seconds is None else f"{text}, at least {brief(row.traffic.seconds)}"
