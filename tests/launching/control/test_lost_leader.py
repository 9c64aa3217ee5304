"""When a run is given up because its leading node does not come back, by values."""

from collections.abc import Mapping

import pytest

from torchdeck.launching.control.leader_watch import PATIENCE, STOP_LIMIT, Follower, LostLeader, Seen

GRACE = 120.0


def given_up_after(
    followers: Mapping[str, Follower], *, stop_now: bool = False, grace: float = GRACE
) -> float | None:
    """Seconds of the leader's silence until the run is given up; None: not within an hour."""
    rule = LostLeader("gpu0", grace, 0.0)
    assert not rule.look(Seen(7.0, True, followers), 100.0)
    for second in range(3600):
        if rule.look(Seen(7.0, second < 10, followers, stop_now), 100.0 + second):
            return second
    return None


@pytest.mark.parametrize(
    ("does", "seconds"),
    [
        ((Follower.ENDED,), PATIENCE * GRACE),
        ((Follower.ENDED, Follower.AWAY), PATIENCE * GRACE),  # a rack that lost power
        ((Follower.ENDS,), 2 * GRACE),
        ((Follower.SERVES,), None),
        ((Follower.ENDED, Follower.SERVES), None),  # another follower still hears it
        ((Follower.AWAY,), None),  # this machine may be cut off
        ((Follower.EMPTY,), 2 * GRACE),  # rebooted
        ((Follower.EMPTY, Follower.AWAY), 2 * GRACE),
        ((Follower.EMPTY, Follower.SERVES), None),
        ((), None),
    ],
)
def test_another_node_must_have_given_it_up_too(does: tuple[Follower, ...], seconds: float | None) -> None:
    followers = {f"gpu{number}": each for number, each in enumerate(does, 1)}
    assert given_up_after(followers) == seconds


@pytest.mark.parametrize(
    ("does", "seconds"),
    [
        ((), GRACE),
        ((Follower.AWAY,), GRACE),
        ((Follower.EMPTY,), STOP_LIMIT),
        ((Follower.ENDED,), STOP_LIMIT),
        ((Follower.ENDS,), 2 * GRACE),
        ((Follower.SERVES,), None),  # it hands the stop to the leader, and ends with it
    ],
)
def test_stop_now_always_has_an_end(does: tuple[Follower, ...], seconds: float | None) -> None:
    followers = {f"gpu{number}": each for number, each in enumerate(does, 1)}
    assert given_up_after(followers, stop_now=True) == seconds


@pytest.mark.parametrize("does", [Follower.ENDED, Follower.ENDS])
def test_a_gang_that_may_go_on_without_us_is_given_up_only_for_a_stop(does: Follower) -> None:
    followers = {"gpu1": does, "gpu2": Follower.AWAY}
    for stop_now in (False, True):
        seen = Seen(None, False, followers, stop_now, may_go_on=True)
        assert bool(LostLeader("gpu0", GRACE, 0.0).look(seen, 10 * GRACE)) is stop_now


def test_a_follower_that_has_just_been_rebooted_may_still_be_started_again() -> None:
    rule, none = LostLeader("gpu0", GRACE, 0.0), {"gpu1": Follower.EMPTY}
    assert not rule.look(Seen(None, False, {"gpu1": Follower.AWAY}), 9 * GRACE)
    assert not rule.look(Seen(None, False, none), 10 * GRACE)
    assert not rule.look(Seen(None, False, {"gpu1": Follower.SERVES}), 11 * GRACE)
    assert not rule.look(Seen(None, False, none), 12 * GRACE)
    assert not rule.look(Seen(None, False, none, may_go_on=True), 20 * GRACE)
    assert rule.look(Seen(None, False, none), 20 * GRACE).endswith("no rank is left on gpu1")


def test_a_leader_that_is_heard_again_has_all_of_the_grace_again() -> None:
    rule, ended = LostLeader("gpu0", GRACE, 0.0), {"gpu1": Follower.ENDED}
    assert not rule.look(Seen(1.0, False, ended), PATIENCE * GRACE - 1)
    assert not rule.look(Seen(2.0, True, ended), PATIENCE * GRACE)
    assert not rule.look(Seen(2.0, False, ended), 2 * PATIENCE * GRACE - 1)
    assert rule.look(Seen(2.0, False, ended), 2 * PATIENCE * GRACE)


def test_the_reason_names_who_is_silent_and_what_is_left() -> None:
    rule = LostLeader("gpu0", GRACE, 0.0)
    seen = Seen(None, False, {"gpu1": Follower.ENDED, "gpu2": Follower.AWAY})
    assert rule.look(seen, 230.0) == (
        "node gpu0, the leader of the run, has not answered for 230 s, nor has gpu2; no rank is left on gpu1"
    )
    stopped = LostLeader("gpu0", GRACE, 0.0).look(Seen(None, False, {}, stop_now=True), 130.0)
    assert stopped == (
        "node gpu0, the leader of the run, has not answered for 130 s; a stop was asked for, and what may "
        "still run there ends when it is reached"
    )


@pytest.mark.parametrize("followers", [{}, {"gpu1": Follower.AWAY, "gpu2": Follower.AWAY}])
def test_the_limit_for_silence_of_all_nodes_counts_from_the_last_that_was_reached(
    followers: Mapping[str, Follower],
) -> None:
    rule = LostLeader("gpu0", GRACE, 0.0, lost_after=600.0)
    gone = Seen(1.0, False, followers)
    assert not rule.look(gone, 500.0)
    assert not rule.look(Seen(1.0, True, followers), 550.0)  # its link is up again
    assert not rule.look(gone, 600.0)
    if followers:
        assert not rule.look(Seen(1.0, False, {**followers, "gpu2": Follower.SERVES}), 1100.0)
        assert not rule.look(gone, 1150.0)
        assert not rule.look(gone, 1749.0)
    why = rule.look(gone, 1750.0)
    assert why.endswith("given up after 600 s without any node (launch.lost_after)")
    assert "node gpu0, the leader of the run, has not answered for" in why


def test_a_follower_that_still_serves_keeps_the_run_whatever_the_limit() -> None:
    rule = LostLeader("gpu0", GRACE, 0.0, lost_after=600.0)
    for now in (0.0, 10_000.0):
        assert not rule.look(Seen(None, False, {"gpu1": Follower.SERVES, "gpu2": Follower.AWAY}), now)
