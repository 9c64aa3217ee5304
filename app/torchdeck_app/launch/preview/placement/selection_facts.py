"""Strip below the grid: the selection and its facts."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck.plan.preview.preview import percent
from torchdeck.plan.preview.rank_preview import RankPreview
from torchdeck.quantities import size
from torchdeck_app.launch.preview.preview_tab import line_label
from torchdeck_app.launch.preview.rank_grid_model import (
    ModelNode,
    Need,
    RankGridModel,
    Slot,
    of_capacity,
)
from torchdeck_app.theme.fonts import Type
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, Panel

_FACTS = 4


class SpotDetails(Panel):
    """Panel with a title, a button that switches the selection on or off, and four facts. Its size never
    changes.
    """

    switch_pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setAccessibleName("Selection")
        self._title = line_label(Type.HEADING)
        self.switch = QPushButton("Switch off")
        self.switch.setToolTip("Use it in the run (Space)")
        self.switch.clicked.connect(self.switch_pressed)
        top = QHBoxLayout()
        top.addWidget(self._title, 1)
        top.addWidget(self.switch)
        grid = QGridLayout()
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(0)
        self._names = [self._cell(grid, 0, column, "secondary") for column in range(_FACTS)]
        self._values = [self._cell(grid, 1, column, "") for column in range(_FACTS)]
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(top)
        column.addLayout(grid)
        self.add(body)
        kept = self.switch.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self.switch.setSizePolicy(kept)
        self.facts: tuple[Fact, ...] = ()
        """Return what is shown now."""
        self.show_run("", ())

    @property
    def title(self) -> str:
        return self._title.text()

    @property
    def values(self) -> tuple[str, ...]:
        """Return what is shown now."""
        return tuple(value.text() for value in self._values)

    def show_run(self, title: str, facts: tuple[Fact, ...]) -> None:
        """Show the whole run, for an empty selection."""
        self._title.setText(title)
        self._title.setToolTip(plain_tip(title))
        self.switch.hide()
        self.show_facts(facts)

    def show_spot(self, title: str, facts: tuple[Fact, ...], *, can_switch: bool, is_on: bool) -> None:
        """Show a node or a device with its rank."""
        self._title.setText(title)
        self._title.setToolTip(plain_tip(title))
        self.switch.setVisible(can_switch)
        self.switch.setText("Switch off" if is_on else "Switch on")
        self.show_facts(facts)

    def show_facts(self, facts: tuple[Fact, ...]) -> None:
        """Show up to four facts."""
        self.facts = facts
        for at, (name, value) in enumerate(zip(self._names, self._values, strict=True)):
            fact = facts[at] if at < len(facts) else Fact("", "")
            name.setText(fact.name)
            value.setText(fact.value)
            value.setToolTip(plain_tip(fact.more or fact.value))
            value.setAccessibleName(f"{fact.name}: {fact.value}. {fact.more}" if fact.name else "")

    def _cell(self, grid: QGridLayout, row: int, column: int, role: str) -> ElidedLabel:
        made = line_label(Type.SMALL if row == 0 else Type.BODY, role)
        grid.addWidget(made, row, column)
        grid.setColumnStretch(column, 3 if column < 2 else 2)
        return made


# Facts of the selected rank or node. Without Qt.

_UNKNOWN = "–"
COMPUTED = 2
"""Index of the first fact of a rank that has to be computed."""
_SHOWN = 8
"""Maximum sample ids shown of the first microbatch."""


class Fact(NamedTuple):
    """One fact."""

    name: str
    value: str
    more: str = ""
    """Tooltip: the exact value, or an explanation."""


def placed_facts(model: RankGridModel, slot: Slot) -> tuple[Fact, ...]:
    """Return the facts of a slot's rank that need no computation."""
    return (_memory(slot.need), _part(model, slot.rank), Fact("reads", "…"), Fact("holds", "…"))


def rank_facts(model: RankGridModel, slot: Slot, rank: RankPreview) -> tuple[Fact, ...]:
    """Return the same facts with the computed ones."""
    return (_memory(slot.need, rank), _part(model, slot.rank), _reads(rank), _holds(rank))


def run_facts(model: RankGridModel) -> tuple[Fact, ...]:
    """Return the facts of the whole run."""
    devices = [slot for node in model.nodes for slot in node.slots if slot.index is not None]
    unused = sum(slot.rank is None for slot in devices)
    used = sum(node.is_on for node in model.nodes)
    nodes = f"{used:,}" if used == len(model.nodes) else f"{used:,} of {len(model.nodes):,}"
    return (
        Fact("ranks", f"{model.world_size:,}"),
        Fact("nodes", nodes),
        Fact("devices", f"{len(devices) - unused:,} of {len(devices):,}" if devices else "CPU"),
        _whole(model, "all of it on each")
        if model.shard == 1
        else Fact("model", f"in {model.shard:,} parts"),
    )


def node_facts(node: ModelNode) -> tuple[Fact, ...]:
    """Return the facts of a node; the same number of facts."""
    worst = max(
        (slot.need for slot in node.slots if slot.need is not None),
        key=lambda need: need.share or 0.0,
        default=None,
    )
    devices = sum(slot.index is not None for slot in node.slots)
    free = sum(slot.index is not None and slot.rank is None for slot in node.slots)
    memory = _memory(worst)
    return (
        memory._replace(name="fullest device"),
        Fact("ranks", f"{node.ranks:,}"),
        Fact("devices", f"{devices:,}" if devices else "CPU"),
        Fact("not used", f"{free:,}"),
    )


def _memory(need: Need | None, rank: RankPreview | None = None) -> Fact:
    if need is None:
        return Fact("peak memory", _UNKNOWN, "Model size unknown")
    text = size(need.peak_bytes)
    if need.capacity_bytes and need.share is not None:
        text = f"{of_capacity(need)}, {percent(need.share)}"
    more = f"{need.peak_bytes:,} bytes: {need.verdict}"
    if rank is not None and rank.memory is not None:
        more += f"; expected between {rank.memory.low_bytes:,} and {rank.memory.high_bytes:,}"
        more += f"; the peak is in {rank.memory.phase}"
    return Fact("peak memory", text, more)


def _whole(model: RankGridModel, text: str) -> Fact:
    """Return the fact for ranks without sharding."""
    if model.is_known:
        return Fact("model", text, "Every rank holds the whole model")
    return Fact("model", _UNKNOWN, "Model size unknown")


def _part(model: RankGridModel, rank: int | None) -> Fact:
    if rank is None or model.shard == 1:
        return _whole(model, "all of it")
    group = model.group_of(rank)
    text = f"part {rank - group.start + 1:,} of {model.shard:,}"
    more = f"Ranks {group.start:,} to {group.stop - 1:,} share one model"
    if model.groups > 1:
        text += f", group {rank // model.shard:,}"
        replicas = [f"{other:,}" for other in model.replicas_of(rank)[:6]]
        more += (
            f"; the same part is on ranks {', '.join(replicas)}{' …' if model.groups > len(replicas) else ''}"
        )
    return Fact("model", text, more)


def _reads(rank: RankPreview) -> Fact:
    if rank.samples is None:
        return Fact("reads", _UNKNOWN, "Data unknown")
    text, more = f"{rank.samples:,} samples", "in the whole run"
    if rank.tokens is not None:
        more = f"{rank.tokens:,.0f} tokens in the whole run"
    if rank.microbatches:
        ids = rank.microbatches[0].sample_ids
        shown = ", ".join(map(str, ids[:_SHOWN]))
        more += f"; the first microbatch is of samples {shown}{' …' if len(ids) > _SHOWN else ''}"
    return Fact("reads", text, more)


def _holds(rank: RankPreview) -> Fact:
    if not rank.tensors:
        return Fact("holds", _UNKNOWN, "Model size unknown")
    return Fact("holds", f"{len(rank.tensors):,} tensors", "The Parameters tab lists them")
