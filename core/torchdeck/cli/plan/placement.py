"""Placement grid: one line per node, one number per rank."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from torchdeck.cli.plan.lines import GROUPS
from torchdeck.plan.preview.rank_grid import RankGrid, RankGridNode

SHOWN_ALIKE = 3
"""Number of identical nodes that are drawn, besides the last one."""
SHOWN_NODES = 12
_NAME = 24
_BESIDE = 8
"""Most ranks in one line for which the node's devices fit next to them."""


def placement_lines(board: RankGrid, width: int) -> list[Text]:
    """Return the grid and its legend of the lines between ranks."""
    label = min(_NAME, max(len(node.name) for node in board.nodes))
    cell = max(2, len(str(board.world_size - 1)))
    lines = []
    for node in _drawn(board):
        if isinstance(node, int):
            lines.append(Text(f"  {'⋮':<{label}}  and {node:,} more like it", style="dim"))
        else:
            lines += _node_lines(board, node, label, cell, width)
    if board.shard > 1:
        lines.append(Text(f"  {groups_line(board)}", style="dim"))
    return lines


def _drawn(board: RankGrid) -> Iterator[RankGridNode | int]:
    """Yield the nodes to draw, and counts of those left out."""
    if len(board.nodes) <= SHOWN_NODES:
        yield from board.nodes
        return
    for first, last in board.alike():
        stretch = board.nodes[first.node_rank : last.node_rank + 1]
        if len(stretch) <= SHOWN_ALIKE + 1:
            yield from stretch
            continue
        yield from stretch[:SHOWN_ALIKE]
        if len(stretch) > SHOWN_ALIKE + 1:
            yield len(stretch) - SHOWN_ALIKE - 1
        yield stretch[-1]


def _node_lines(board: RankGrid, node: RankGridNode, label: int, cell: int, width: int) -> list[Text]:
    """Ranks after the node's name; its kind next to the first of them, or below if there is no space."""
    kind = kind_line(node)
    room = width - label - 4
    beside = (min(node.nproc, _BESIDE) * (cell + 1)) <= room - len(kind) - 2
    each = max(4, (room - len(kind) - 2 if beside else room) // (cell + 1))
    name = node_name(node.name, lambda text: len(text) <= label)
    lines = []
    for first in range(0, node.nproc, each):
        ranks = range(node.first_rank + first, node.first_rank + min(first + each, node.nproc))
        lines.append(
            Text(f"  {name if first == 0 else '':<{label}}  ").append_text(_cells(board, ranks, cell))
        )
    if beside:
        lines[0].append(f"  {kind}", style="dim")
    else:
        lines.append(Text(f"  {'':<{label}}  {kind}", style="dim"))
    return lines


def _cells(board: RankGrid, ranks: Sequence[int], cell: int) -> Text:
    text = Text()
    grouped = 1 < board.shard < board.world_size
    for rank in ranks:
        group = board.shard_group(rank)
        if rank != ranks[0]:
            text.append("│" if grouped and rank % board.shard == 0 else " ", style="dim")
        text.append(f"{rank:>{cell}}", style=GROUPS[group % 2] if grouped else "bold")
    return text


def kind_line(node: RankGridNode) -> str:
    """Return `8 × NVIDIA H100`, or `CPU`."""
    if set(node.devices) == {"cpu"}:
        return "CPU"
    indices = [int(device.partition(":")[2]) for device in node.devices]
    usual = indices == list(range(len(indices)))
    which = "" if usual else f" ({', '.join(map(str, indices))})"
    return f"{len(indices)} × {node.kind or 'GPU'}{which}"


def groups_line(board: RankGrid) -> str:
    """Describe how the ranks divide weights, or what else they do."""
    if board.replicas == 1:
        return f"{board.sharded} sharded over all {board.shard:,} ranks"
    return f"weights are sharded over {board.shard:,} ranks each, in {board.replicas:,} groups that replicate"


# Node names, shortened but still distinct.

_NUMBERS = re.compile(r"\d(?:.*\d)?")
"""From the first digit to the last: the part in which node names of a cluster differ."""


def shortened(text: str, length: int) -> str:
    """Return `text` in at most `length` characters, its middle left out if it is longer."""
    return cut(text, lambda short: len(short) <= length)


def node_name(name: str, fits: Callable[[str], bool]) -> str:
    """Return `name`, or as much of it as `fits`: the suffix after its numbers goes first, then the prefix."""
    numbers = _NUMBERS.search(name)
    if fits(name) or numbers is None:
        return cut(name, fits)
    rest = name[: numbers.end()] + ("…" if numbers.end() < len(name) else "")
    for kept in range(numbers.start(), -1, -1):
        short = rest if kept == numbers.start() else f"{rest[:kept]}…{rest[numbers.start() :]}"
        if fits(short):
            return short
    return cut(name, fits)


def cut(text: str, fits: Callable[[str], bool]) -> str:
    """Return `text`, or as much of its two ends as `fits`; at least an ellipsis."""
    if fits(text):
        return text
    for kept in range(len(text) - 1, 0, -1):
        head = (kept + 1) // 2
        short = f"{text[:head]}…{text[len(text) - (kept - head) :]}"
        if fits(short):
            return short
    return "…"
