"""Lines that all views of a preview share: the headline, and wrapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from torchdeck.cli.plan.preview.glyphs import VERDICTS
from torchdeck.plan.communication import Collective
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.bars import VERDICT_SIGNS
from torchdeck.plan.preview.headline import placement_line, verdict_line
from torchdeck.plan.preview.traffic import Traffic
from torchdeck.quantities import brief, size


def head(preview: Preview, *, judged: bool = True) -> Iterator[Text]:
    """Headline: the run, where it runs, and, if `judged`, whether it fits."""
    plan = preview.plan
    yield Text.assemble((plan.name, "bold"), f"  {plan.kind} {plan.target}")
    yield Text(placement_line(preview))
    if preview.known.broken:
        yield Text(f"✕ {preview.known.broken}", style="bold red")
    if judged and preview.memory is not None:
        verdict = preview.memory.verdict
        sign = f"{VERDICT_SIGNS[verdict]} {verdict_line(preview.memory)}"
        yield Text(sign, style=f"bold {VERDICTS[verdict]}")


def wrapped(lines: Iterable[Text], console: Console) -> Iterator[Text]:
    """Wrap lines; continuation lines are indented to the beginning of the text."""
    for line in lines:
        if line.cell_len <= console.width:
            yield line
            continue
        indent = len(line.plain) - len(line.plain.lstrip())
        for part in line[indent:].wrap(console, console.width - indent):
            part.rstrip()
            yield Text(" " * indent).append_text(part)


# Communication of a step, in sentences.


def traffic_lines(traffic: Traffic) -> list[str]:
    """Lines on what each rank sends, what crosses the network, and how long that takes."""
    if not traffic.sent:
        return ["nothing is sent: there is one rank"]
    parts = ", ".join(map(_collective, traffic.collectives))
    lines = [f"each rank sends {size(traffic.sent)} a step: {parts}"]
    if traffic.between:
        who = f"{traffic.crossing:,} rank{'' if traffic.crossing == 1 else 's'}"
        lines.append(f"between nodes: {size(traffic.between)} a step in all, sent by {who}")
    if traffic.seconds is not None:
        busy = f"the links are busy for {brief(traffic.seconds)} a step or more"
        lines.append(f"{busy}, of which some hides behind computing")
    elif traffic.between:
        lines.append("how long that takes is not known: say cluster.inter_node, the speed of the network")
    return lines


def _collective(collective: Collective) -> str:
    times = f" in {collective.passes} passes" if collective.passes > 1 else ""
    return f"{size(collective.sent)} {collective.name} of {collective.what}{times}"
