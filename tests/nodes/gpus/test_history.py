"""Histories of GPUs: bounded, in order, each value where it belongs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.gpus import free_gpu, gpu_now
from torchdeck.nodes.gpus.gpu_now import Reason
from torchdeck.nodes.gpus.history import (
    SERIES,
    SPANS,
    GpuHistories,
    GpuHistory,
    Track,
    reason_shares,
    segments,
    span_of,
)


@given(st.integers(1, 7), st.lists(st.floats(0, 100), max_size=40))
def test_the_last_samples_are_kept_in_order(capacity: int, uses: list[float]) -> None:
    history = GpuHistory(capacity)
    for at, use in enumerate(uses):
        assert history.add(gpu_now(time=float(at), util=use))
        assert len(history._times) < 2 * capacity
    track = history.track("use")
    assert list(track.values) == uses[-capacity:]
    assert list(track.times) == [float(at) for at in range(len(uses))][-capacity:]
    assert len(history) == len(track.times)


def test_a_sample_is_recorded_once_and_a_lost_node_adds_nothing() -> None:
    history = GpuHistory()
    assert history.add(gpu_now(time=1.0))
    assert not history.add(gpu_now(time=1.0, util=5.0))
    assert not history.add(gpu_now(time=2.0, is_connected=False))
    assert not history.add(gpu_now(time=None))
    assert list(history.track("use").values) == [93.0]


def test_a_clock_that_was_set_back_begins_the_history_again() -> None:
    history = GpuHistory()
    history.add(gpu_now(time=1000.0))
    history.add(gpu_now(time=10.0))
    assert list(history.track("power").times) == [10.0]


def test_each_series_has_its_value_and_nan_if_it_is_not_reported() -> None:
    history = GpuHistory()
    history.add(gpu_now(time=1.0))
    last = {name: history.track(name).values[-1] for name in SERIES}
    assert last == {
        "use": 93.0,
        "memory": 75.0,
        "temperature": 66.0,
        "power": 640.0,
        "clock": 1755.0,
        "memory_clock": 2619.0,
        "reasons": 4.0,
    }
    history.add(gpu_now(time=2.0, util=math.nan))
    assert math.isnan(history.track("use").values[-1])


def test_gpus_of_removed_nodes_are_forgotten() -> None:
    histories = GpuHistories()
    histories.add([gpu_now(node="a"), free_gpu(node="b")])
    histories.keep({"b"})
    assert len(histories.of(("a", "GPU-0"))) == 0
    assert len(histories.of(("b", "GPU-0"))) == 1


def test_a_curve_breaks_where_nothing_is_known() -> None:
    """While the page was left, and where a value was not reported."""
    track = Track([0.0, 1.0, 2.0, 3.0, 20.0, 21.0], [5.0, 6.0, math.nan, 7.0, 8.0, 9.0])
    assert segments(track, 1.0) == [[(1.0, 6.0), (3.0, 7.0)], [(20.0, 8.0), (21.0, 9.0)]]
    assert segments(track, 30.0) == []


@given(st.lists(st.floats(0, 2000), max_size=20))
def test_the_time_axis_grows_in_steps(times: list[float]) -> None:
    track = Track(sorted(times), [0.0] * len(times))
    span = span_of(track)
    assert span in SPANS
    assert span == SPANS[-1] or not times or max(times) - min(times) <= span


def test_the_share_of_each_reason_counts_samples_that_report_any() -> None:
    track = Track([0.0, 1.0, 2.0, 3.0, 4.0], [0x20, 0x4, 0x4 | 0x20, 0x0, math.nan])
    assert reason_shares(track, 1.0) == pytest.approx({Reason.POWER_LIMIT: 200 / 3, Reason.HOT: 100 / 3})
    assert reason_shares(track, 9.0) == {}
