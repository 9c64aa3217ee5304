"""Strategies side by side: what each needs and sends."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from torchdeck.cli.plan.bars import flowed, legend, stacked_bar
from torchdeck.cli.plan.lines import VERDICTS, head, show, wrapped
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.bars import VERDICT_SIGNS, by_family, capacity_in_sight, scale_of
from torchdeck.plan.preview.strategies import StrategyRow
from torchdeck.quantities import brief, size


def print_strategies(preview: Preview, rows: Sequence[StrategyRow], console: Console) -> None:
    """Print strategies side by side."""
    # each row has its own verdict; one above them all would seem to apply to the whole comparison
    lines = [*head(preview, judged=False), Text(), Text("Peak memory (max rank)", style="bold")]
    show(console, *wrapped([*lines, *strategy_lines(rows, console.width)], console))


def strategy_lines(rows: Sequence[StrategyRow], width: int) -> list[Text]:
    """Return a stacked bar for each strategy, with its traffic below; the legend at the end."""
    groups = [group for row in rows if (group := row.compared.worst) is not None]
    label = max(len(row.name) for row in rows)
    beside = max((len(_beside(group)) for group in groups), default=0)
    scale = scale_of(groups) if groups else 1.0
    lines: list[Text] = []
    for row in rows:
        group = row.compared.worst
        if group is None:
            lines.append(Text(f"  {row.name:<{label}}  {row.compared.problem}", style="dim"))
            continue
        name = (f"  {row.name:<{label}}  ", "bold" if row.chosen else "")
        verdict = (f"  {_beside(group)}", VERDICTS[group.verdict])
        room = max(8, width - label - beside - 6)
        lines.append(Text.assemble(name, _bar(group, scale, room), verdict))
        lines.append(Text(f"  {'':<{label}}  {_below(row, group)}", style="dim"))
    names = dict.fromkeys((name for group in groups for name in by_family(group.terms)), "")
    lines += [Text("  ").append_text(line) for line in flowed(legend(names), width - 2)]
    notes = dict.fromkeys(note for row in rows for note in row.compared.notes)
    return [*lines, *(Text.assemble(("note ", "cyan"), note) for note in notes)]


def _bar(group: PredictedMemory, scale: float, width: int) -> Text:
    mark = float(group.capacity_bytes or 0) if capacity_in_sight(group, scale) else None
    return stacked_bar(by_family(group.terms), scale, width, mark)


def _beside(group: PredictedMemory) -> str:
    of = "" if group.capacity_bytes is None else f" of {size(group.capacity_bytes)}"
    return f"{size(group.peak_bytes)}{of}  {VERDICT_SIGNS[group.verdict]} {group.verdict}"


def _below(row: StrategyRow, group: PredictedMemory) -> str:
    text = f"{size(sum(group.state.values()))} between steps"
    if row.traffic is None:
        return text
    text += f"; sends {size(row.traffic.sent)} a step"
    between = [f"{size(row.traffic.between)} between nodes"] if row.traffic.between else []
    busy = [] if row.traffic.seconds is None else [brief(row.traffic.seconds)]
    text += f" ({', '.join(between + busy)})" if between or busy else ""
    return text + ("   (chosen)" if row.chosen else "")
