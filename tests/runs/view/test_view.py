"""The fold from journals to a RunView."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from support.values.histories import (
    AGENT,
    ALIVE,
    DEAD,
    POWER_CUT,
    agent_started,
    clock,
    controller_journal,
    created,
    ended,
    event,
    failure,
    finished,
    folded,
    running_run,
    started,
)
from torchdeck.contract.journal import Event
from torchdeck.runs.links import UP, LinkState
from torchdeck.runs.run_state import Liveness, NodeLiveness, RunState


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], RunState.PENDING),
        ([agent_started()], RunState.PREPARING),
        ([agent_started(), event("queued", devices=["0"], held_by=[])], RunState.QUEUED),
        ([agent_started(), event("queued", held_by=[]), event("leased", devices=["0"])], RunState.PREPARING),
        ([agent_started(), started()], RunState.STARTING),
        (running_run(), RunState.RUNNING),
        ([*running_run(), event("stopping", kind="graceful", why="user")], RunState.STOPPING),
        ([agent_started(), event("stopping", kind="now", why="user"), started()], RunState.STOPPING),
        (
            [*running_run(), ended(1, "failed"), event("restarting", attempt=2, delay=1.0)],
            RunState.RESTARTING,
        ),
        ([*running_run(), ended(1, "failed"), event("restarting"), started(2)], RunState.STARTING),
        ([*running_run(), ended(), finished()], RunState.SUCCEEDED),
        ([*running_run(), ended(1, "failed"), finished("FAILED")], RunState.FAILED),
        ([*running_run(), ended(1, "stopped"), finished("CANCELLED")], RunState.CANCELLED),
    ],
)
def test_states_follow_the_journal(events: list[Event], state: RunState) -> None:
    """Each history that an agent writes has the state that DESIGN names for it."""
    assert folded(events).state is state


def test_failure_is_told_with_rank_code_and_traceback() -> None:
    """A failed run's view holds the first failing rank and what it said."""
    view = folded(
        [*running_run(), ended(1, "failed", failure(1)), finished("FAILED", why="rank 1 failed")], DEAD
    )
    assert view.first_failure is not None
    assert (view.first_failure.rank, view.first_failure.code) == (1, 1)
    assert view.first_failure.traceback.startswith("Traceback")
    assert view.exit_code == 1


@pytest.mark.parametrize(
    ("folder", "text", "shown"),
    [
        ("/home/a", 'File "/td/runs/r/code/lib/b.py", line 3', 'File "/home/a/lib/b.py", line 3'),
        ("/home/a", 'File "/with a space/runs/r/code/b.py"', 'File "/home/a/b.py"'),
        ("/home/a", "no /x/y: see /td/runs/r/code/b.py:3", "no /x/y: see /home/a/b.py:3"),
        ("/home/a", "'/td/runs/r/code/b.py'", "'/home/a/b.py'"),
        ("/home/a", 'File "/td/runs/other/code/b.py"', 'File "/td/runs/other/code/b.py"'),
        ("/home/a", "/td/runs/r/coded/b.py /td/runs/r/code", "/td/runs/r/coded/b.py /td/runs/r/code"),
        ("", 'File "/td/runs/r/code/b.py"', 'File "/td/runs/r/code/b.py"'),
    ],
)
def test_failures_name_the_users_own_files(folder: str, text: str, shown: str) -> None:
    """Ranks execute a copy, whose lines are those of the user's files at the start."""
    events = [*running_run(), ended(1, "failed", failure(1, message=text, traceback=f"Traceback\n  {text}"))]
    view = folded(events, journal=[created(code_folder=folder)])
    assert view.first_failure is not None
    assert (view.first_failure.message, view.first_failure.traceback) == (shown, f"Traceback\n  {shown}")


def test_signal_is_named_whether_written_by_name_or_number() -> None:
    """Signals stand in journals by name or by number, and in views by name."""
    for written in ("SIGKILL", 9):
        view = folded([*running_run(), ended(1, "failed", failure(0, code=None, signal=written))])
        assert view.first_failure is not None
        assert view.first_failure.signal == "SIGKILL"


@pytest.mark.parametrize("liveness", [POWER_CUT, DEAD])
def test_no_run_is_running_for_ever(liveness: Liveness) -> None:
    """A run whose processes are all gone and whose end no one wrote is LOST, whatever came last."""
    view = folded(running_run(), liveness, now=1e9)
    assert view.state is RunState.LOST
    assert ("power cut" in view.why) is (liveness is POWER_CUT)
    assert view.exit_code == 1


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("failed", RunState.FAILED), ("stopped", RunState.CANCELLED), ("succeeded", RunState.SUCCEEDED)],
)
def test_known_outcome_is_not_lost(outcome: str, state: RunState) -> None:
    """Where the last attempt's end was written before everything died, the run ended that way."""
    assert folded([*running_run(), ended(1, outcome, failure())], POWER_CUT).state is state


def test_run_that_never_started_is_failed_after_a_grace() -> None:
    """Nothing alive and no attempt made: FAILED, but not while processes may still be coming up."""
    assert folded([], DEAD, now=101.0).state is RunState.PENDING
    assert folded([], DEAD, now=200.0).state is RunState.FAILED


def test_orphans_keep_a_run_from_being_lost() -> None:
    """Ranks that outlived every supervisor are a run that continues."""
    assert folded(running_run(), Liveness(orphans=True), now=1e9).state is RunState.RUNNING


def test_killed_agent_with_holder_alive_is_a_warning_only() -> None:
    """While the shim lives, the agent is being restarted: the state stays, and it is said."""
    liveness = Liveness(nodes={"localhost": NodeLiveness(holder=True)})
    view = folded(running_run(), liveness)
    assert view.state is RunState.RUNNING
    assert any("agent" in warning for warning in view.warnings)


def test_agent_that_cannot_be_started_fails_the_run() -> None:
    """`transport_failed` is the end where no agent came up, and nothing where one did afterwards."""
    journal = [*controller_journal(), event("transport_failed", node="localhost", why="no python")]
    assert folded([], DEAD, journal=journal).state is RunState.FAILED
    assert folded([], DEAD, journal=journal).why == "no python"
    assert folded(running_run(), ALIVE, journal=journal).state is RunState.RUNNING


def test_resumed_run_lives_again_and_keeps_its_past() -> None:
    """After `resumed` the old end counts no more; attempts and checkpoints of before are still there."""
    first = [*running_run(), ended(1, "stopped"), finished("CANCELLED", resumable=True)]
    assert folded(first, DEAD).resumable
    journal = [*controller_journal(), event("resumed", 120.0, finished=1)]
    waiting = folded(first, ALIVE, journal=journal)
    assert waiting.state is RunState.PENDING
    assert not waiting.resumable
    second = [*first, agent_started(121.0), started(2, 122.0, resume="/c/step_00000010", resume_step=10)]
    going = folded(second, ALIVE, journal=journal)
    assert going.state is RunState.STARTING
    assert [attempt.number for attempt in going.attempts] == [1, 2]
    assert going.attempts[1].resume_step == 10
    over = folded([*second, ended(2), finished("SUCCEEDED", 130.0)], DEAD, journal=journal)
    assert over.state is RunState.SUCCEEDED
    assert over.ended == 130.0


def test_agent_that_cannot_be_started_for_a_resume_is_told() -> None:
    """The reason survives that the first life's agents and end stand in another journal."""
    first = [*running_run(), ended(1, "stopped"), finished("CANCELLED", resumable=True)]
    again = [
        event("resumed", 120.0, finished=1),
        event("transport_failed", 121.0, node="localhost", why="no python"),
    ]
    view = folded(first, DEAD, journal=[*controller_journal(), *again])
    assert (view.state, view.why) == (RunState.FAILED, "no python")


def test_refused_run_exits_with_3() -> None:
    """A run that did not start because of another's devices names whose they are."""
    held = [{"device": "GPU-1", "run_id": "other", "name": "gpt"}]
    view = folded([agent_started(), event("refused", held_by=held), finished("FAILED", why="devices")], DEAD)
    assert view.refused
    assert view.exit_code == 3
    assert view.held_by[0].run_id == "other"


def test_queued_run_says_what_it_waits_for() -> None:
    """A QUEUED view names device and run."""
    held = [{"device": "GPU-1", "run_id": "other", "name": "gpt"}]
    assert "run other" in folded([agent_started(), event("queued", held_by=held)]).why


def test_hangs_are_flagged_until_they_are_over() -> None:
    """A hang is in view and warnings with rank and phase, and gone after `hang_over`."""
    hang = event(
        "hang", attempt=1, rank=1, phase="training", step=12, still=34.0, limit=30.0, detail="SIGSTOP"
    )
    view = folded([*running_run(), hang])
    assert [item.rank for item in view.hangs] == [1]
    assert "rank 1 has made no progress for 34 s in training at step 12" in view.warnings[0]
    assert folded([*running_run(), hang, event("hang_over", rank=1)]).hangs == ()


def test_a_verdict_is_shown_with_its_evidence() -> None:
    """The sentence first; since when, and the folder in the run directory."""
    said = "Rank 1 is in train.py:84 save_model; rank 0 waits for it."
    more = {"kind": "elsewhere", "examination": "2", "detail": said}
    hang = event("hang", attempt=1, rank=1, phase="training", step=None, still=34.0, limit=30.0, **more)
    view = folded([*running_run(), hang])
    assert view.why == f"{said} No progress for more than 30 s. Evidence: attempts/1/examinations/2"
    assert view.hangs[0].evidence == "attempts/1/examinations/2"


def test_a_run_that_was_stopped_as_it_hung_says_so() -> None:
    """Its ranks end by the stop, and so does the hang; one that was over before is no matter."""
    said = {"kind": "elsewhere", "examination": "1", "detail": "Rank 1 is in train.py:84."}
    hang = event("hang", 102.5, attempt=1, rank=1, phase="training", still=34.0, limit=30.0, **said)
    over, end = event("hang_over", 103.5, rank=1), [ended(1, "stopped"), finished("CANCELLED")]
    stop = event("stopping", 103.0, kind="graceful", why="user")
    (told,) = folded([*running_run(), hang, stop, over, *end], DEAD).warnings
    assert told == (
        "before it was stopped, it hung: Rank 1 is in train.py:84. No progress for more than 30 s. "
        "Evidence: attempts/1/examinations/1"
    )
    later = event("stopping", 103.8, kind="graceful", why="user")
    assert folded([*running_run(), hang, over, later, *end], DEAD).warnings == ()
    by_itself = event("stopping", 103.0, kind="now", why="hang")
    assert folded([*running_run(), hang, by_itself, over, *end], DEAD).warnings == ()


def test_heartbeat_gives_ranks_of_the_current_attempt_only() -> None:
    """Ranks come from the heartbeat when it is of this attempt; an older one says nothing about this."""
    ranks = {"0": {"phase": "training", "step": 7, "total": 9, "still": 0.1, "pid": 5}, "x": {}, "1": 3}
    beat = {"attempt": 1, "t": 109.0, "ranks": ranks, "rss_bytes": {"0": 1024}}
    (rank,) = folded(running_run(), beat=beat).ranks
    assert (rank.rank, rank.step, rank.total, rank.rss_bytes) == (0, 7, 9, 1024)
    assert folded(running_run(), beat={**beat, "attempt": 2}).ranks == ()


def test_a_smaller_attempt_says_who_was_given_up_and_what_changed() -> None:
    """While it is waited for, and of the attempt itself; of a later one no more."""
    given_up = {"reason": "smaller", "suspect": {"node": "gpu1", "local_rank": 2}, "why": "it failed twice"}
    events = [
        event("leased", devices=["0", "1", "2"]),
        started(1, world_size=3, accumulation=1, global_batch=12, rendezvous="static", notes=[]),
        ended(1, "failed", failure(2)),
        event("restarting", 104.1, attempt=1, delay=2.0, **given_up),
    ]
    view = folded(events, ALIVE)
    assert view.why == (
        "rank 2 failed with exit code 1; starts again in 2 s without local rank 2 on gpu1: it failed twice"
    )
    notes = ["at 2 ranks the global batch is 16 samples in place of 12"]
    size = {"world_size": 2, "accumulation": 2, "global_batch": 16, "devices": ["0", "1"]}
    events += [
        started(2, 106.0, reason="smaller", notes=notes, **size),
        ended(2, "failed", failure(0)),
        event("restarting", 108.1, attempt=2, delay=2.0, reason="restart"),
        started(3, 110.0, reason="restart", world_size=2),
    ]
    assert folded(events, ALIVE).devices == ("0", "1")
    first, second, third = folded(events, ALIVE).attempts
    assert (first.world_size, first.given_up, first.rendezvous) == (3, "", "static")
    assert (second.world_size, second.accumulation, second.global_batch) == (2, 2, 16)
    assert (second.notes, second.given_up) == (tuple(notes), "local rank 2 on gpu1: it failed twice")
    assert (third.world_size, third.given_up) == (2, "")
    lost = {"reason": "smaller", "suspect": {"node": "gpu1", "local_rank": None}, "delay": 1.0, "why": "gone"}
    assert folded([*events, event("restarting", 111.0, **lost)], ALIVE).why.endswith(
        "without node gpu1: gone"
    )


def test_the_time_between_a_stop_and_a_resume_is_no_silence() -> None:
    """Before the new agent writes, the heartbeat is the old one: silence counts from the agent's start."""
    first = [*running_run(), ended(1, "stopped"), finished("CANCELLED", resumable=True)]
    journal, beat = [*controller_journal(), event("resumed", 160.0, finished=1)], {"t": 105.0}
    assert folded(first, journal=journal, beat=beat, now=160.0).troubles == ()
    again = [*first, event("agent_started", 161.0, identity=AGENT, adopted=False, life=1)]
    assert folded(again, journal=journal, beat=beat, now=162.0).troubles == ()
    late = folded(again, journal=journal, beat=beat, now=181.0)
    assert [trouble.text for trouble in late.troubles] == ["no sign of the agent on localhost for 20 s"]


def test_times_of_another_clock_are_corrected() -> None:
    link = LinkState("localhost", UP, since=100.0, clock_offset=3600.04, clock_error=0.01)
    liveness = Liveness(nodes={"localhost": NodeLiveness(link=link)})
    events = [*running_run(), ended(), finished()]
    there = [replace(each, time=each.time + 3600.0) for each in events]
    one, other = folded(events, DEAD), folded(there, liveness)
    assert (other.started, other.ended) == pytest.approx((one.started, one.ended))
    assert other.attempts[0].started == pytest.approx(one.attempts[0].started)
    assert other.attempts[0].ended == pytest.approx(one.attempts[0].ended)


@pytest.mark.parametrize("offset", [-3600.0, -60.0, 60.0, 3600.0])
def test_a_time_that_was_not_written_is_by_our_clock(offset: float) -> None:
    """The last event of a lost run counts, by whichever clock it was written."""
    liveness = Liveness(nodes={"localhost": NodeLiveness(link=clock(offset))})
    events = running_run()
    there = [replace(each, time=each.time + offset) for each in events]
    one, other = folded(events, DEAD, now=20_000.0), folded(there, liveness, now=20_000.0)
    assert one.state is other.state is RunState.LOST
    assert (other.started, other.ended) == pytest.approx((one.started, one.ended))


def test_a_rank_that_is_gone_makes_no_progress() -> None:
    beat = {"t": 110.0, "attempt": 1, "ranks": {str(rank): {"step": 4, "still": 0.0} for rank in (0, 1)}}
    exited = event("rank_exited", 108.0, attempt=1, rank=1, code=None, signal=9)
    ranks = folded([*running_run(), exited], beat=beat, now=110.5).ranks
    assert [rank.still for rank in ranks] == [0.0, None]
    assert ranks[1].exit is not None
    assert ranks[1].exit.signal == "SIGKILL"
    # the node lost power: its last heartbeat is old, and so is the progress in it
    assert [rank.still for rank in folded(running_run(), beat=beat, now=212.0).ranks] == [102.0, 102.0]


def test_view_is_json() -> None:
    """Every field of a view becomes plain JSON."""
    events = [*running_run(), event("checkpoint", step=4, path="/c", seconds=0.1, size=5), finished()]
    value = json.loads(json.dumps(folded(events, DEAD).to_json()))
    assert value["state"] == "SUCCEEDED"
    assert value["exit_code"] == 0
    assert value["checkpoint"]["step"] == 4


def slow(attempt: int = 1, **changed: Any) -> Event:
    fields = {
        "ranks": [3],
        "share": 0.18,
        "since": 90.0,
        "step": 1200,
        "detail": "Rank 3 makes the others wait 18 % of each step since step 1,200",
        "differs": ["its CPU is 40 % stolen by other processes (others: 1 %)"],
    }
    return event("straggler", attempt=attempt, **{**fields, **changed})


def test_a_straggler_is_shown_until_it_is_over() -> None:
    """As a value and as a note, also after the end of the run; not for another attempt."""
    view = folded([*running_run(), slow()])
    assert list(view.to_json()["stragglers"]) == [
        {
            "ranks": (3,),
            "share": 0.18,
            "since": 90.0,
            "step": 1200,
            "detail": "Rank 3 makes the others wait 18 % of each step since step 1,200",
            "differs": ("its CPU is 40 % stolen by other processes (others: 1 %)",),
        }
    ]
    assert view.stragglers[0].detail in view.warnings
    assert folded([*running_run(), slow(), event("straggler_over", attempt=1, ranks=[3])]).stragglers == ()
    assert folded([*running_run(), slow(attempt=2)]).stragglers == ()
    assert folded([*running_run(), slow(ranks="3", share="much", differs=3, detail=None)]).stragglers == ()
    over = folded([*running_run(), slow(), ended(1, "succeeded"), finished("SUCCEEDED")])
    assert f"until it ended: {view.stragglers[0].detail}" in over.warnings
