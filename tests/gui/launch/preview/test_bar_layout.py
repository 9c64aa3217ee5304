"""Stacked bars: whatever the scale and the width, parts follow each other and end where the peak does."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.previews import GIB, memory
from torchdeck.contract.plan.prediction import PredictedMemory
from torchdeck.plan.preview.memory_bars import TERMS, by_family, family_of
from torchdeck_app.launch.preview.memory_bars import lay_out

NAMES = ("parameters", "gradients", "optimizer", "gathered", "activations", "logits", "buckets", "gloo")


def needing(terms: dict[str, int]) -> PredictedMemory:
    peak = sum(terms.values())
    return dataclasses.replace(
        memory(), terms=terms, peak_bytes=peak, low_bytes=peak, high_bytes=peak, capacity_bytes=2 * peak
    )


@given(
    terms=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2**40), min_size=1),
    width=st.integers(1, 2000),
    room=st.floats(1.0, 50.0),
)
def test_parts_sum_to_the_peak(terms: dict[str, int], width: int, room: float) -> None:
    made = needing(terms)
    scale = max(1.0, made.peak_bytes * room)
    layout = lay_out(made, scale, width)
    assert sum(segment.size for segment in layout.segments) == made.peak_bytes
    reached = 0
    for segment in layout.segments:
        assert segment.left == reached
        assert abs((segment.right - segment.left) - segment.size / scale * width) <= 1
        reached = segment.right
    assert reached == (round(made.peak_bytes / scale * width) if layout.segments else 0)
    assert layout.low == layout.high == round(made.peak_bytes / scale * width)


def test_parts_are_in_the_order_of_their_colours() -> None:
    layout = lay_out(memory(), 100 * GIB, 500)
    assert [segment.name for segment in layout.segments] == [
        term.name for term in TERMS if term.name != "gathered"
    ]


def test_capacity_is_a_mark_where_it_is_in_sight() -> None:
    made = dataclasses.replace(memory(peak=40, capacity=80), free_bytes=60 * GIB)
    assert (lay_out(made, 160 * GIB, 160).capacity, lay_out(made, 160 * GIB, 160).free) == (80, 60)
    assert lay_out(made, 50 * GIB, 100).capacity is None
    assert lay_out(memory(capacity=None), 50 * GIB, 100).capacity is None
    assert lay_out(memory(), 160 * GIB, 160).free is None


def test_a_place_belongs_to_one_part() -> None:
    layout = lay_out(memory(), 80 * GIB, 800)
    assert [layout.segment_at(x) for x in (0, layout.segments[0].right, 790)] == [0, 1, None]


def test_a_scale_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        lay_out(memory(), 0, 10)


def test_what_has_no_colour_of_its_own_is_other() -> None:
    assert [family_of(name) for name in ("logits", "gloo", "other", "parameters")] == [
        "activations",
        "other",
        "other",
        "parameters",
    ]
    assert by_family({"gloo": 3, "logits": 2, "activations": 1, "gathered": 0}) == {
        "activations": 3,
        "other": 3,
    }
