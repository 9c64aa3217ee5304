"""Whole preview on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from torchdeck.cli.plan.lines import head, show, wrapped
from torchdeck.cli.plan.node_commands import code_line
from torchdeck.cli.plan.placement import placement_lines
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.distributed.settings import CheckpointSettings, RecipeSettings
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.document import size_lines


def print_preview(preview: Preview, console: Console) -> None:
    """Print all sections, each with its heading."""
    parts = [*wrapped(head(preview), console)]
    for heading, lines in _sections(preview, console.width):
        parts += [Text(), Text(heading, style="bold"), *wrapped(lines, console)]
    parts += [Text(), *wrapped(_feet(preview), console)]
    show(console, *parts)


def checkpoint_lines(plan: LaunchPlan) -> list[str]:
    """Lines on when and where a recipe run saves, and what it resumes from."""
    if plan.kind != "recipe":
        return []
    policy = plan.checkpoint
    settings = RecipeSettings.from_json(plan.nodes[0].env["TORCHDECK_RECIPE"]).checkpoint
    lines = [
        f"checkpoints {saving_times(settings)} in {policy.directory}",
        f"the newest {policy.keep_last} are kept; resume {policy.resume}",
    ]
    copies = min(settings.replicas, len(plan.nodes) - 1)
    if copies:
        others = "another node" if copies == 1 else f"{copies} other nodes"
        lines.append(
            f"if nodes share no folder, {others} keep{'s' * (copies == 1)} a copy of what a node saves"
        )
    return lines


def saving_times(settings: CheckpointSettings) -> str:
    """Return when training saves, as a clause."""
    times = []
    if settings.every is not None:
        times.append(f"every {settings.every} steps")
    if settings.auto:
        times.append(
            f"as often as a failure every {settings.mtbf:g} h calls for, by what a save takes (at most "
            f"{settings.max_stall:.1%} of the time)"
        )
    if settings.every_epochs is not None:
        times.append("every epoch" if settings.every_epochs == 1 else f"every {settings.every_epochs} epochs")
    background = ", written while training continues," if settings.background and times else ""
    return (" and ".join(times) or "at a stop and at the end") + background


def _sections(preview: Preview, width: int) -> Iterator[tuple[str, list[Text]]]:
    yield "Placement", placement_lines(preview.board, width)
    if preview.arithmetic:
        yield "Step", [Text(f"  {line}") for line in preview.arithmetic]
    yield from _predicted(preview, width)
    sizes = size_lines(preview.plan)
    if sizes:
        yield "Smaller sizes", [Text(f"  {line}") for line in sizes]
    checkpoints = checkpoint_lines(preview.plan)
    if checkpoints:
        yield "Checkpoints", [Text(f"  {line}") for line in checkpoints]


def _predicted(preview: Preview, width: int) -> Iterator[tuple[str, list[Text]]]:
    """Sections for which model or data must be known; for a script nothing of this is imported."""
    if preview.data is not None:
        from torchdeck.cli.plan.bars import data_lines

        yield "Data", data_lines(preview.data, width)
    if preview.memory is not None:
        from torchdeck.cli.plan.bars import memory_lines

        yield "Memory of a rank", memory_lines(preview.memory, width)
    if preview.traffic is not None:
        from torchdeck.cli.plan.lines import traffic_lines

        yield "Communication", [Text(f"  {line}") for line in traffic_lines(preview.traffic)]


def _feet(preview: Preview) -> Iterator[Text]:
    for warning in preview.plan.warnings:
        yield Text.assemble(("warning ", "yellow"), warning)
    for note in preview.notes:
        if note == preview.known.broken:
            continue  # it is at the top
        yield Text.assemble(("note ", "cyan"), note)
    yield Text(code_line(preview.plan.code), style="dim")
    yield Text(f"fingerprint {preview.plan.fingerprint[:16]}", style="dim")
    yield Text(
        "--commands: what each node executes · --files: of yours · --rank N: all about one rank · --svg FILE",
        style="dim",
    )
