"""Lines that all views of a preview share: the headline, and wrapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from torchdeck.cli.plan.palette import VERDICTS
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.headline import placement_line, verdict_line
from torchdeck.plan.preview.terms import VERDICT_SIGNS


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
