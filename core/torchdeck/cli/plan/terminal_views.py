"""Views of a preview on a terminal: the whole of it, one rank, or a comparison of strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchdeck.cli.plan.bars import flowed, legend, stacked_bar
from torchdeck.cli.plan.lines import VERDICTS, head, show, wrapped
from torchdeck.cli.plan.node_commands import code_line
from torchdeck.cli.plan.placement import placement_lines, shortened
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.distributed.rank_settings import CheckpointSettings, RecipeSettings
from torchdeck.plan.preview import Preview
from torchdeck.plan.preview.memory_bars import VERDICT_SIGNS, by_family, capacity_in_sight, scale_of
from torchdeck.plan.preview.preview_json import size_lines
from torchdeck.plan.preview.program_preview import HEADING, ProgramPreview
from torchdeck.plan.preview.rank_preview import MicrobatchPreview, RankPreview
from torchdeck.plan.preview.strategies import StrategyRow
from torchdeck.quantities import brief, rate, size


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
            f"as often as one failure every {settings.mtbf:g} h requires, given the duration of a "
            "save (at most "
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
    if preview.program is not None:
        yield HEADING, program_lines(preview.program, width)
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

        yield "Memory per rank", memory_lines(preview.memory, width)
    if preview.traffic is not None:
        from torchdeck.cli.plan.lines import traffic_lines

        yield "Communication", [Text(f"  {line}") for line in traffic_lines(preview.traffic)]


def program_lines(program: ProgramPreview, width: int) -> list[Text]:
    """Return a line per setting, its source after it or, if that is too wide, below; unknown ones in one."""
    known = [row for row in program.rows if row.value]
    label = max((len(row.name) for row in known), default=0)
    lines = []
    for row in known:
        line = Text(f"  {row.name:<{label}}  {row.value}")
        if line.cell_len + len(row.source) + 2 <= width:
            lines.append(line.append(f"  {row.source}", style="dim"))
        else:
            lines += [line, Text(f"{'':<{label + 4}}{row.source}", style="dim")]
    unknown = [row.name.lower() if row.name != "LoRA" else row.name for row in program.rows if not row.value]
    if unknown:
        lines.append(Text(f"  not given: {', '.join(unknown)}", style="dim"))
    return lines


def _feet(preview: Preview) -> Iterator[Text]:
    for each in () if preview.program is None else preview.program.contradictions:
        yield Text.assemble(("warning ", "yellow"), str(each))
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
    text += f"; sends {size(row.traffic.sent)} per step"
    between = [f"{size(row.traffic.between)} between nodes"] if row.traffic.between else []
    busy = [] if row.traffic.seconds is None else [brief(row.traffic.seconds)]
    text += f" ({', '.join(between + busy)})" if between or busy else ""
    return text + ("   (chosen)" if row.chosen else "")


# One rank: its placement, its first samples, its tensors.

SHOWN_IDS = 12
SHOWN_TENSORS = 40
_NAME = 48


def print_rank(rank: RankPreview, console: Console) -> None:
    """Print one rank."""
    parts: list[RenderableType] = list(wrapped(rank_lines(rank), console))
    table = tensor_table(rank)
    if table is not None:
        parts.append(Padding(table, (0, 0, 0, 2)))
    show(console, *parts)


def rank_lines(rank: RankPreview) -> list[Text]:
    """Return placement, group, data and memory."""
    place = rank.placement
    lines = [
        Text.assemble(
            (f"rank {place.rank}", "bold"),
            f": {place.device} of {place.node} (node {place.node_rank}, local rank {place.local_rank})",
        )
    ]
    if rank.shard > 1:
        lines.append(Text(f"  shard {rank.shard_index} of {rank.shard} in group {rank.shard_group}"))
    if rank.samples is not None:
        tokens = "" if rank.tokens is None else f", {rate(rank.tokens)} tokens"
        lines.append(
            Text(
                f"  reads {rank.samples:,} sample{'' if rank.samples == 1 else 's'}{tokens} in the whole run"
            )
        )
    lines += [Text(f"    {_microbatch(microbatch)}") for microbatch in rank.microbatches]
    memory = rank.memory
    if memory is not None:
        lines.append(Text(f"  needs {size(memory.peak_bytes)} at its peak, in {memory.phase}"))
        lines += [Text(f"    {name} {size(count)}") for name, count in memory.terms.items() if count]
    return lines


def tensor_table(rank: RankPreview) -> Table | None:
    """Return the rows of each tensor that the rank holds; None if nothing is known of the model."""
    if not rank.tensors:
        return None
    held = sum(tensor.size for tensor in rank.tensors)
    table = Table(
        "tensor",
        "shape",
        "rows",
        box=None,
        pad_edge=False,
        title=f"holds {size(held)} of parameters",
        title_justify="left",
        title_style="",
    )
    table.add_column("size", justify="right")
    for tensor in rank.tensors[:SHOWN_TENSORS]:
        shape = "×".join(map(str, tensor.shape)) or "scalar"
        whole = tensor.rows == (tensor.shape[0] if tensor.shape else 1)
        rows = "all" if whole else "none" if not tensor.rows else _range(tensor.first_row, tensor.rows)
        table.add_row(shortened(tensor.name, _NAME), shape, rows, size(tensor.size))
    if len(rank.tensors) > SHOWN_TENSORS:
        table.add_row(
            f"and {len(rank.tensors) - SHOWN_TENSORS} more; --rank with --json lists all", "", "", ""
        )
    return table


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}–{first + count - 1}"


def _microbatch(microbatch: MicrobatchPreview) -> str:
    ids = microbatch.sample_ids
    shown = " ".join(map(str, ids[:SHOWN_IDS])) + (" …" if len(ids) > SHOWN_IDS else "")
    size_text = f"{len(ids)} sample{'' if len(ids) == 1 else 's'}"
    return f"step {microbatch.step}, microbatch {microbatch.index} ({size_text}): {shown or 'nothing'}"
