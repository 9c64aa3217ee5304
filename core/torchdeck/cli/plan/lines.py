"""Lines that all views of a preview share: the headline, and wrapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console, RenderableType
from rich.text import Text

from torchdeck.cli.console import make_console
from torchdeck.plan.communication import Collective, Traffic
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.memory_bars import VERDICT_SIGNS
from torchdeck.plan.preview.preview import placement_line, verdict_line
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
        return ["nothing is sent: there is only one rank"]
    parts = ", ".join(map(_collective, traffic.collectives))
    lines = [f"each rank sends {size(traffic.sent)} per step: {parts}"]
    if traffic.between:
        who = f"{traffic.crossing:,} rank{'' if traffic.crossing == 1 else 's'}"
        lines.append(f"between nodes: {size(traffic.between)} per step in total, sent by {who}")
    if traffic.seconds is not None:
        busy = f"the links are busy for {brief(traffic.seconds)} per step or more"
        lines.append(f"{busy}, partly overlapped with computation")
    elif traffic.between:
        lines.append("the duration is unknown: set cluster.inter_node, the speed of the network")
    return lines


def _collective(collective: Collective) -> str:
    times = f" in {collective.passes} passes" if collective.passes > 1 else ""
    return f"{size(collective.sent)} {collective.name} of {collective.what}{times}"


# Signs for terminals: the sign that draws a line, and its plain form if there is no UTF-8.

WIDEST = 120
"""Most columns used, however wide the terminal is."""
NARROWEST = 60

PLAIN = str.maketrans(
    {
        **dict.fromkeys("█▉▊▋▌▐", "#"),
        **dict.fromkeys("▍▎▏", ""),
        "▓": "%",
        "▒": "+",
        "░": "-",
        "▞": "=",
        "·": ".",
        "×": "x",
        "√": "sqrt ",
        "÷": "/",
        "–": "-",
        "…": "...",
        "⋮": ":",
        "│": "|",
        "→": "->",
        "⚠": "!",
        "✓": "+",
        "✕": "x",
        "◐": "~",
        "−": "-",
        "≈": "~",
        "²": "^2",
    }
)
"""Sign → its replacement in ASCII."""


def make_wide_console(width: int | None = None) -> Console:
    """Return a console on standard output, limited to a readable width."""
    console = make_console(width=width)
    if width is None:
        console.width = max(NARROWEST, min(console.width, WIDEST))
    return console


def show(console: Console, *parts: RenderableType) -> None:
    """Print `parts` one below the other; in plain signs if the terminal has no UTF-8."""
    if console.encoding.lower().replace("-", "").startswith("utf8"):
        console.print(*parts, sep="\n")
        return
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    plain = captured.get().translate(PLAIN)
    console.file.write(plain.encode(console.encoding, "backslashreplace").decode(console.encoding))


# Colours of the preview on a terminal; those of the memory terms are in `torchdeck.plan.preview.memory_bars`.
#
# Series: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision.

SERIES = "#2a8ad4"
"""Bars on a terminal."""
GROUPS = ("#2a8ad4", "#12a67c")
"""Shard groups on a terminal, in turn."""
VERDICTS: Mapping[str, str] = {"fits": "green", "tight": "yellow", "does not fit": "red", "unknown": "dim"}
"""Colours on a terminal, named so that its theme suits its background."""
