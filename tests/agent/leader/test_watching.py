"""Silence and clocks of other nodes, by values and a time that only the test moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.agent.leader.leader import ClockWatch, Offset, measured
from torchdeck.agent.leader.silence import SilenceWatch


def told(watch: SilenceWatch, now: float) -> list[tuple[str, str]]:
    return [(news.node, news.what) for news in watch.look(now)]


def test_a_silent_node_is_flagged_then_lost_and_may_come_back() -> None:
    """Each is said once; `deadline` says when to look again."""
    watch = SilenceWatch(["b", "c"], 15.0, 120.0, now=0.0)
    watch.heard("c", 14.0)
    assert watch.deadline == 15.0
    assert told(watch, 14.9) == []
    assert told(watch, 15.0) == [("b", "silent")]
    assert told(watch, 16.0) == []
    watch.heard("c", 110.0)
    assert watch.deadline == 120.0
    assert told(watch, 120.0) == [("b", "lost")]
    assert watch.lost == {"b"}
    assert [(news.what, news.seconds) for news in watch.heard("b", 130.0)] == [("back", 130.0)]
    assert watch.lost == set()


def test_a_lost_node_has_another_grace_in_the_next_attempt() -> None:
    """It is lost again after that, and a node that is left out never."""
    watch = SilenceWatch(["b", "c"], 15.0, 120.0, now=0.0)
    watch.look(120.0)
    watch.forget("c")
    watch.again(121.0)
    assert told(watch, 240.0) == []
    assert told(watch, 241.0) == [("b", "lost")]
    assert watch.heard("c", 250.0) == []


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=40),
    st.floats(-1e6, 1e6),
)
def test_the_true_offset_is_within_the_error(ways: list[tuple[float, float]], offset: float) -> None:
    """Whatever the two ways of each question take; half a round trip is the error."""
    watch = ClockWatch()
    now = 1000.0
    for there, back in ways:
        found = measured(now, now + there + back, now + there + offset)
        watch.add(found)
        assert abs(found.seconds - offset) <= found.error + 1e-6
        now += 100.0
    best = watch.best
    assert best is not None
    assert abs(best.seconds - offset) <= best.error + 1e-6
    assert best.error <= min(there + back for there, back in ways[-16:]) / 2 + 1e-9


def test_an_offset_is_news_when_it_changes_beyond_its_error() -> None:
    """The first one is, and a clock that was set."""
    watch = ClockWatch()
    assert watch.add(Offset(1.0, 0.001)) == Offset(1.0, 0.001)
    assert watch.add(Offset(1.005, 0.001)) is None
    said = [watch.add(Offset(3.0, 0.002)) for _ in range(16)]
    assert [news for news in said if news is not None] == [Offset(3.0, 0.002)]
    assert watch.best == Offset(3.0, 0.002)
