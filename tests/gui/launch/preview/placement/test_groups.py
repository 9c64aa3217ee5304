"""Shard groups on the board: which are told apart by what, and what says so."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from support.values.previews import machines, preview
from torchdeck_app.launch.preview.placement.grid_layout import STEPS, Box, Detail, Layout, Spot, lay_out
from torchdeck_app.launch.preview.placement.grid_legend import entries
from torchdeck_app.launch.preview.placement.grid_markers import (
    PERIODS,
    Fill,
    Markers,
    group_look,
    group_words,
    period_of,
    pieces,
)
from torchdeck_app.launch.preview.placement.grid_painting import RankGridPainter
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel, board_model, spot_text
from torchdeck_app.theme.palette import LIGHT
from torchdeck_app.theme.theme import Theme


def sharded(nodes: int, gpus: int) -> RankGridModel:
    made = preview(nodes, gpus, distributed={"strategy": "hsdp"})
    return board_model(made, machines(nodes, gpus))


def cells(model: RankGridModel, laid: Layout) -> list[QImage]:
    """The first cell of each node as it is painted."""
    picture = QImage(laid.width, laid.height, QImage.Format.Format_ARGB32)
    picture.fill(QColor(LIGHT.window))
    painter = QPainter(picture)
    RankGridPainter(LIGHT, model, laid).paint(painter, Box(0, 0, laid.width, laid.height), Markers())
    painter.end()
    return [picture.copy(*laid.cell(node, 0)) for node in range(len(model.nodes))]


@pytest.mark.parametrize("step", [step for step in STEPS if step.detail is Detail.CELLS])
def test_sixteen_groups_look_sixteen_ways_from_far_away(qapp: QApplication, step: object) -> None:
    assert qapp is not None
    model = sharded(16, 2)
    seen = cells(model, lay_out([2] * 16, step, 700))  # type: ignore[arg-type]  # parametrize knows no types
    assert all(one != other for at, one in enumerate(seen) for other in seen[:at])


def test_no_two_of_a_period_are_alike_and_each_pattern_fills_something_else() -> None:
    for period in PERIODS:
        assert len({group_look(group, period) for group in range(period)}) == period
    filled = {fill: pieces(Box(10, 20, 5, 5), fill) for fill in Fill}
    assert len(set(filled.values())) == len(Fill)
    for parts in filled.values():
        assert parts
        assert all(part.left >= 10 and part.right <= 15 and part.top >= 20 for part in parts)
        assert all(part.bottom <= 25 and part.width > 0 and part.height > 0 for part in parts)


def test_rows_as_long_as_a_period_do_not_put_a_look_below_itself() -> None:
    model = sharded(2 * PERIODS[0], 2)
    step = STEPS[2]
    card = lay_out([2], step, 700).width
    laid = lay_out([2] * len(model.nodes), step, PERIODS[0] * card - (PERIODS[0] - 1) * step.margin)
    below = next(at for at, card in enumerate(laid.cards) if card.top != laid.cards[0].top)
    assert below == PERIODS[0]
    period = period_of(model, laid)
    assert group_look(0, period) != group_look(below, period)


def test_groups_have_numbers_where_there_is_room_for_words(theme: Theme) -> None:
    model = sharded(3, 2)
    assert [group_words(model, node) for node in model.nodes] == ["group 0", "group 1", "group 2"]
    assert "rank 3: cuda:1 of n0001, group 1 of 0 to 2" in spot_text(model, *Spot(1, 1))
    (legend,) = (entry for entry in entries(model, theme, Detail.WORDS) if entry.fills)
    assert len(legend.colours) == 3
    assert legend.text == "3 groups of 2 ranks that shard one model"
    alone = board_model(preview(1, 2), machines(1, 2))
    assert group_words(alone, alone.nodes[0]) == ""
