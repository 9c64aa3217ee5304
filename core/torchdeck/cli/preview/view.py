"""The whole preview on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from torchdeck.cli.palette import VERDICT_SIGNS, VERDICTS
from torchdeck.cli.preview.data import data_lines
from torchdeck.cli.preview.glyphs import show
from torchdeck.cli.preview.memory import memory_lines
from torchdeck.cli.preview.placement import placement_lines
from torchdeck.cli.preview.rank import rank_lines, tensor_table
from torchdeck.cli.preview.strategies import strategy_lines
from torchdeck.cli.preview.traffic import traffic_lines
from torchdeck.plan.launch_plan import LaunchPlan
from torchdeck.plan.preview.headline import placement_line, verdict_line
from torchdeck.plan.preview.preview import Preview
from torchdeck.plan.preview.rank import RankPreview
from torchdeck.plan.preview.strategies import StrategyRow


def print_preview(preview: Preview, console: Console) -> None:
    """Print all sections, each with its heading."""
    parts: list[RenderableType] = [*_wrapped(_head(preview), console)]
    for heading, lines in _sections(preview, console.width):
        parts += [Text(), Text(heading, style="bold"), *_wrapped(lines, console)]
    parts += [Text(), *_wrapped(_feet(preview), console)]
    show(console, *parts)


def print_rank(rank: RankPreview, console: Console) -> None:
    """Print one rank."""
    parts: list[RenderableType] = list(_wrapped(rank_lines(rank), console))
    table = tensor_table(rank)
    if table is not None:
        parts.append(Padding(table, (0, 0, 0, 2)))
    show(console, *parts)


def print_strategies(preview: Preview, rows: Sequence[StrategyRow], console: Console) -> None:
    """Print strategies side by side."""
    head = [*_head(preview), Text(), Text("Memory of the fullest rank", style="bold")]
    show(console, *_wrapped([*head, *strategy_lines(rows, console.width)], console))


def checkpoint_lines(plan: LaunchPlan) -> list[str]:
    """When a recipe run saves, where, and what it goes on from."""
    if plan.kind != "recipe":
        return []
    policy = plan.checkpoint
    when = "at a stop and at the end" if policy.every_steps is None else f"every {policy.every_steps} steps"
    return [
        f"checkpoints {when} in {policy.directory}",
        f"the newest {policy.keep_last} are kept; resume {policy.resume}",
    ]


def _head(preview: Preview) -> Iterator[Text]:
    plan = preview.plan
    yield Text.assemble((plan.name, "bold"), f"  {plan.kind} {plan.target}")
    yield Text(placement_line(preview))
    if preview.memory is not None:
        verdict = preview.memory.verdict
        sign = f"{VERDICT_SIGNS[verdict]} {verdict_line(preview.memory)}"
        yield Text(sign, style=f"bold {VERDICTS[verdict]}")


def _sections(preview: Preview, width: int) -> Iterator[tuple[str, list[Text]]]:
    yield "Placement", placement_lines(preview.board, width)
    if preview.arithmetic:
        yield "Step", [Text(f"  {line}") for line in preview.arithmetic]
    if preview.data is not None:
        yield "Data", data_lines(preview.data, width)
    if preview.memory is not None:
        yield "Memory of a rank", memory_lines(preview.memory, width)
    if preview.traffic is not None:
        yield "Communication", [Text(f"  {line}") for line in traffic_lines(preview.traffic)]
    checkpoints = checkpoint_lines(preview.plan)
    if checkpoints:
        yield "Checkpoints", [Text(f"  {line}") for line in checkpoints]


def _feet(preview: Preview) -> Iterator[Text]:
    for warning in preview.plan.warnings:
        yield Text.assemble(("warning ", "yellow"), warning)
    for note in preview.notes:
        yield Text.assemble(("note ", "cyan"), note)
    files = len(preview.plan.code.files)
    covered = f"covers {files} file{'' if files == 1 else 's'} of yours"
    yield Text(f"fingerprint {preview.plan.fingerprint[:16]} ({covered})", style="dim")
    yield Text("--commands: what each node executes · --rank N: all about one rank · --svg FILE", style="dim")


def _wrapped(lines: Iterable[Text], console: Console) -> Iterator[Text]:
    """Lines, with what does not fit on more lines below their own beginning."""
    for line in lines:
        if line.cell_len <= console.width:
            yield line
            continue
        indent = len(line.plain) - len(line.plain.lstrip())
        for part in line[indent:].wrap(console, console.width - indent):
            part.rstrip()
            yield Text(" " * indent).append_text(part)
