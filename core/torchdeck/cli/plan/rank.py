"""One rank: its placement, its first samples, its tensors."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchdeck.cli.plan.lines import show, wrapped
from torchdeck.cli.plan.placement import shortened
from torchdeck.plan.preview.rank import MicrobatchPreview, RankPreview
from torchdeck.quantities import rate, size

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
