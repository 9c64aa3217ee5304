"""Where things lie on the board."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck_app.launch.preview.placement.grid_cursor import moved
from torchdeck_app.launch.preview.placement.grid_layout import (
    STEPS,
    Detail,
    Spot,
    Step,
    fitting_step,
    lay_out,
)

NODES = st.lists(st.integers(1, 17), min_size=1, max_size=9)
FEWER = settings(max_examples=40, deadline=None)
ANY_STEP = st.sampled_from(STEPS)
ROOM = st.integers(1, 1500)


@FEWER
@given(NODES, ANY_STEP, ROOM)
def test_nothing_overlaps_and_every_slot_is_there(slots: list[int], step: Step, room: int) -> None:
    laid = lay_out(slots, step, room)
    for at, card in enumerate(laid.cards):
        assert not any(card.meets(other) for other in laid.cards[at + 1 :])
        assert card.right <= laid.width
        assert card.bottom <= laid.height
        cells = [laid.cell(at, slot) for slot in range(slots[at])]
        for number, cell in enumerate(cells):
            assert (cell.left, cell.top) >= (card.left, card.top)
            assert cell.right <= card.right
            assert cell.bottom <= card.bottom
            if step.detail is not Detail.TILES:
                assert not any(cell.meets(other) for other in cells[number + 1 :])


@FEWER
@given(NODES, ANY_STEP, ROOM)
def test_what_lies_at_a_point_is_what_was_put_there(slots: list[int], step: Step, room: int) -> None:
    laid = lay_out(slots, step, room)
    for at, count in enumerate(slots):
        card = laid.cards[at]
        assert laid.spot_at(card.left, card.bottom - 1) == Spot(at)
        if step.detail is Detail.TILES:
            continue
        for slot in range(count):
            cell = laid.cell(at, slot)
            assert laid.spot_at(cell.left, cell.top) == Spot(at, slot)
            assert laid.spot_at(cell.right - 1, cell.bottom - 1) == Spot(at, slot)
    assert laid.spot_at(laid.width + 1, 5) is None
    assert laid.spot_at(0, 0) is None


@FEWER
@given(NODES, ANY_STEP, st.integers(200, 1500))
def test_cards_keep_within_the_room_where_one_can(slots: list[int], step: Step, room: int) -> None:
    laid = lay_out(slots, step, room)
    alone = max(lay_out([count], step, room).width for count in slots)
    assert laid.width <= max(room, alone)


@FEWER
@given(NODES, ANY_STEP, ROOM, st.integers(0, 5000), st.integers(1, 900))
def test_cards_of_a_stretch_are_found(slots: list[int], step: Step, room: int, top: int, height: int) -> None:
    laid = lay_out(slots, step, room)
    found = set(laid.cards_between(top, top + height))
    assert {
        at for at, card in enumerate(laid.cards) if card.top < top + height and card.bottom > top
    } <= found


@FEWER
@given(NODES, ANY_STEP, ROOM)
def test_a_card_is_dropped_before_or_behind_another(slots: list[int], step: Step, room: int) -> None:
    laid = lay_out(slots, step, room)
    for at, card in enumerate(laid.cards):
        assert laid.gap_at(card.left, card.top) == at
        assert laid.gap_at(card.right, card.top) == at + 1


@FEWER
@given(NODES, ANY_STEP, st.integers(300, 1200))
def test_the_arrows_reach_everything_and_stay_on_the_board(slots: list[int], step: Step, room: int) -> None:
    laid = lay_out(slots, step, room)
    spot = Spot(0)
    seen: list[Spot] = []
    while not seen or spot != seen[-1]:
        seen.append(spot)
        spot = moved(laid, spot, "right")
    shown = sum(slots) if step.detail is not Detail.TILES else 0
    assert len(set(seen)) == len(slots) + shown
    for each in seen[1:]:
        assert moved(laid, each, "left") == seen[seen.index(each) - 1]
        assert moved(laid, each, "down") in seen
        assert moved(laid, each, "up") in seen
    assert moved(laid, spot, "first") == Spot(0)
    assert moved(laid, Spot(0), "last") == seen[-1]


def test_up_and_down_go_to_what_is_seen_there() -> None:
    laid = lay_out([4, 4, 4], STEPS[-1], 900)
    first_cell = Spot(0, 0)
    assert moved(laid, Spot(0), "down") == first_cell
    assert moved(laid, first_cell, "down") == Spot(0, laid.columns[0])
    assert moved(laid, first_cell, "up") == Spot(0)


@FEWER
@given(NODES, ANY_STEP, ANY_STEP, st.data())
def test_what_is_at_a_point_is_found_in_another_layout(
    slots: list[int], step: Step, other: Step, data: st.DataObject
) -> None:
    """So that a zoom keeps it under the pointer."""
    laid, zoomed = lay_out(slots, step, 700), lay_out(slots, other, 700)
    node = data.draw(st.integers(0, len(slots) - 1))
    card = laid.cards[node]
    x, y = laid.place_in(zoomed, card.left + card.width / 2, card.top + card.height / 2)
    assert zoomed.cards[node].holds(x, y)


def test_nodes_of_128_ranks_have_their_names_where_all_is_in_sight() -> None:
    """In the room that a window of 1280 × 720 leaves."""
    assert STEPS[fitting_step([8] * 16, 706, 232)].header > 0


def test_the_nearest_step_at_which_all_is_in_sight_is_taken() -> None:
    assert fitting_step([2], 700, 400) == len(STEPS) - 1
    many = fitting_step([8] * 128, 700, 400)
    assert STEPS[many].detail is Detail.CELLS
    laid = lay_out([8] * 128, STEPS[many], 700)
    assert laid.height <= 400
    assert lay_out([8] * 128, STEPS[many + 1], 700).height > 400
    assert STEPS[fitting_step([8] * 1024, 700, 400)].detail is Detail.TILES
    assert fitting_step([8] * 20_000, 700, 400) == 0
