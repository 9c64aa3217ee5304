"""What the gang does when a rank, a node or a port fails, and whom it names."""

from __future__ import annotations

import dataclasses

import pytest

from support.agents.gang_story import POLICY, RECIPE, Story, failure, finish, kinds
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.attempt_state import KILL_LIMIT
from torchdeck.agent.gang.gang import NODE_GRACE
from torchdeck.agent.gang.recovered_state import LOOP_SECONDS, replay
from torchdeck.agent.gang.recovery import NEVER_RAN_RETRIES
from torchdeck.contract.journal import Event
from torchdeck.contract.run_states import FinalState, StartReason


def test_restarts_are_counted_and_delayed() -> None:
    """max_restarts new attempts, each after its delay, then FAILED naming the first failing rank."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    story.exit(1)
    assert story.clean(failure=failure())[-1] == commands.AnnounceRestart(1, 2.0, StartReason.RESTART)
    assert story.tell(events.Tick(), after=1.9) == []
    assert story.tell(events.Tick(), after=0.2) == [commands.LaunchAttempt(2, StartReason.RESTART)]
    story.up().exit(1)
    assert "rank 1 failed first: ValueError: no" in finish(story.clean(failure=failure())).why


def test_lost_ports_are_not_counted_as_restarts() -> None:
    """Three more tries for the port, then FAILED."""
    story = Story().launch()
    reasons = []
    for _ in range(10):
        story.tell(events.PortLost("a", story.gang.number))
        story.exit(1)
        last = story.clean()[-1]
        if isinstance(last, commands.Finish):
            break
        reasons += [
            command.reason
            for command in story.tell(events.Tick(), after=2.0)
            if isinstance(command, commands.LaunchAttempt)
        ]
        story.up()
    assert reasons == ["port", "port", "port"]
    assert story.gang.phase == "finished"


def test_a_hang_does_what_the_policy_says() -> None:
    """watch: nothing; stop: SIGTERM and FAILED; restart: SIGTERM and a counted attempt."""
    hang = events.HangFlagged(1, 0, "rank 0 is stopped")
    assert Story(RECIPE).train().tell(hang) == []
    story = Story(dataclasses.replace(RECIPE, on_hang="stop")).train()
    assert kinds(story.tell(hang)) == ["AnnounceStopping", "Terminate"]
    story.exit(1)
    assert finish(story.clean()).state == "FAILED"
    story = Story(dataclasses.replace(RECIPE, on_hang="restart", max_restarts=1)).train()
    assert story.tell(hang) == [commands.Terminate("a")]
    story.exit(1)
    assert kinds(story.clean()) == ["EndAttempt", "AnnounceRestart"]
    story.tell(events.Tick(), after=2.0)
    story.up().tell(events.HangFlagged(2, 0, "rank 0 is stopped"))
    story.exit(1)
    assert finish(story.clean()).why == "rank 0 is stopped"


def test_a_failure_on_one_node_ends_all() -> None:
    """The other node's torchrun gets SIGTERM, then SIGKILL; the earliest failure is the run's."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(1, "a") == [commands.CleanUp("a", 1, 10.0), commands.Terminate("b")]
    assert story.clean("a", failure(3, 9.0)) == []
    assert story.tell(events.Tick(), after=10.0) == [commands.Kill("b")]
    story.exit(137, "b")
    assert "rank 2 failed first" in finish(story.clean("b", failure(2, 8.0))).why


def test_nodes_that_end_well_apart_are_waited_for() -> None:
    """Exit 0 on one node ends nothing on the other, for a while; then it does."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(0, "a") == [commands.CleanUp("a", 1, 10.0)]
    assert story.tell(events.Tick(), after=NODE_GRACE) == [commands.Terminate("b")]


def test_a_lost_node_ends_the_attempt_and_is_not_waited_for() -> None:
    """As if its torchrun were gone and nothing left there; the others are ended, and the run says why."""
    story = Story(nodes=("a", "b")).train()
    orders = story.tell(events.NodeLost("b", 120.0))
    assert orders == [commands.CleanUp("b", 1, 10.0), commands.Terminate("a")]
    assert story.tell(events.NodeLost("b", 121.0)) == []
    story.exit(143, "a")
    why = "node b has not answered for 120 s; its rank 1 is gone"
    assert finish(story.clean("a")) == commands.Finish(FinalState.FAILED, why)


def test_a_node_that_never_comes_fails_the_run() -> None:
    """There is nothing to start without it."""
    story = Story(nodes=("a", "b"))
    story.tell(events.NodeReady("a"))
    lost = events.NodeLost("b", 120.0)
    assert story.tell(lost) == [commands.Finish(FinalState.FAILED, "node b has not answered for 120 s")]


@pytest.mark.parametrize(
    ("heard", "signal", "named"),
    [
        (6.0, None, "rank 0 failed first"),  # the node still answered when the rank failed
        (4.0, None, "node b has not answered for 120 s; its rank 1 is gone"),
        (4.0, 9, "rank 0 failed first"),  # a lost connection kills no rank
    ],
)
def test_a_node_that_is_gone_is_named_before_ranks_that_lost_it(
    heard: float, signal: int | None, named: str
) -> None:
    """A survivor's "connection reset by peer" follows from it; what came before, or a crash, does not."""
    story = Story(nodes=("a", "b")).train()
    story.tell(events.NodeLost("b", 120.0, heard))
    story.exit(1, "a")
    reset = events.Failure(0, 1, signal, "Connection reset by peer", None, 5.0)
    assert named in finish(story.clean("a", reset)).why


@pytest.mark.parametrize("back", [False, True])
def test_a_silent_node_is_named_though_survivors_end_first(*, back: bool) -> None:
    """The attempt is judged some seconds after SIGKILL, which may be long before launch.node_grace."""
    story = Story(nodes=("a", "b")).train()
    story.tell(events.NodeSilent("b", 15.0, 4.0))
    if back:
        story.tell(events.NodeBack("b"))
    story.exit(1, "a")
    story.clean("a", events.Failure(0, 1, None, "Connection reset by peer", None, 5.0))
    assert story.tell(events.Tick(), after=POLICY.kill_grace) == [commands.Kill("b")]
    why = finish(story.tell(events.Tick(), after=KILL_LIMIT)).why
    gone = "node b has not answered for 40 s; its rank 1 is gone"
    assert why == ("rank 0 failed first: Connection reset by peer (exit code 1)" if back else gone)


def test_a_node_that_was_rebooted_is_named_before_ranks_that_lost_it() -> None:
    """Its new agent says so; the survivor failed in between."""
    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.clean("a", events.Failure(0, 1, None, "Connection reset by peer", None, 5.0))
    story.exit(None, "b")
    rebooted = events.Failure(None, None, None, "node b lost power or was rebooted", None, 4.0, gone=True)
    assert finish(story.clean("b", rebooted)).why == "node b lost power or was rebooted"


def _try_without_b(story: Story) -> list[commands.Command]:
    """An attempt that starts no rank, as b does not answer."""
    story.tell(events.NodeLost("b", 120.0), after=120.0)
    story.exit(None, "a")
    return story.clean("a")


def test_an_attempt_that_started_no_rank_burns_no_restart() -> None:
    """The gang waits for the node for ten more graces; then it has the restarts that it had."""
    story = Story(dataclasses.replace(POLICY, max_restarts=2), ("a", "b")).train()
    story.tell(events.NodeLost("b", 120.0))
    story.exit(1, "a")
    assert story.clean("a")[-1] == commands.AnnounceRestart(1, 2.0, StartReason.RESTART, None)
    for _ in range(NEVER_RAN_RETRIES - 1):
        story.tell(events.Tick(), after=2.0)
        last = _try_without_b(story)[-1]
        assert isinstance(last, commands.AnnounceRestart)
        assert last.reason == "never_ran"
    story.tell(events.NodeBack("b"), events.Tick(), after=2.0)
    story.up().tell(events.RankProgress(story.gang.number, 0, 1))
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("b")
    last = story.clean("a", failure())[-1]
    assert isinstance(last, commands.AnnounceRestart), "the second restart is still there"
    assert last.reason == "restart"
    story.tell(events.Tick(), after=2.0)
    for _ in range(NEVER_RAN_RETRIES):
        assert isinstance(_try_without_b(story)[-1], commands.AnnounceRestart)
        story.tell(events.Tick(), after=2.0)
    assert "node b has not answered for" in finish(_try_without_b(story)).why


def test_attempts_that_started_no_rank_are_counted_by_the_next_agent_too() -> None:
    """As the journal says."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1), ("a", "b")).launch()
    journal = []
    for number in range(1, 4):
        restart = _try_without_b(story)[-1]
        assert isinstance(restart, commands.AnnounceRestart)
        journal.append(Event("attempt_started", 1.0, 0.0, {"attempt": number}))
        journal.append(Event("restarting", 1.0, 0.0, restart._asdict()))
        story.tell(events.Tick(), after=2.0)
    recovered = replay(journal, 0)
    assert (recovered.restart_reason, recovered.restarts, recovered.never_ran) == ("never_ran", 0, 3)


def test_the_first_failure_of_all_nodes_is_told_by_corrected_times() -> None:
    """Within the clocks' error it is a tie, and said to be one; a killed rank comes before lost peers."""
    late = events.Failure(0, 1, None, "late", None, 5.5, 0.0)
    early = events.Failure(2, 1, None, "early", None, 5.0, 0.01)
    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", late)
    assert finish(story.clean("b", early)).why == "rank 2 failed first: early (exit code 1)"

    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", late)
    why = finish(story.clean("b", early._replace(time=5.495))).why
    assert why == (
        "rank 2 failed at the same time as rank 0, as far as the clocks of their nodes tell: "
        "early (exit code 1)"
    )

    story = Story(nodes=("a", "b")).train()
    story.exit(1, "a")
    story.exit(1, "b")
    story.clean("a", events.Failure(0, 1, None, "connection lost", None, 5.0))
    killed = events.Failure(2, 137, 9, "ended by SIGKILL", None, 5.4, 0.01)
    assert finish(story.clean("b", killed)).why == "rank 2 failed first: ended by SIGKILL"


def lives(story: Story, *steps: int) -> list[commands.Command]:
    """Attempts that reach these steps and fail; the last commands after each."""
    last = []
    for step in steps:
        if step:
            story.tell(events.RankProgress(story.gang.number, 0, step))
        story.exit(1)
        last.append(story.clean(failure=failure())[-1])
        if isinstance(last[-1], commands.AnnounceRestart):
            story.tell(events.Tick(), after=2.0)
            story.up()
    return last


def test_three_attempts_without_a_new_step_end_the_run() -> None:
    """Although restarts are left; the reason is named."""
    story = Story(dataclasses.replace(POLICY, max_restarts=100)).train()
    *restarts, last = lives(story, 8, 8, 5, 8)
    assert all(isinstance(each, commands.AnnounceRestart) for each in restarts)
    assert isinstance(last, commands.Finish)
    assert "3 attempts in a row ended without a new step or checkpoint" in last.why


def test_attempts_that_get_further_are_no_loop() -> None:
    """By a step, or by a checkpoint."""
    story = Story(dataclasses.replace(POLICY, max_restarts=100)).train()
    assert all(isinstance(each, commands.AnnounceRestart) for each in lives(story, 8, 8, 8, 9, 9, 9, 10))
    story.tell(events.CheckpointSaved(10))
    assert all(isinstance(each, commands.AnnounceRestart) for each in lives(story, 10, 10, 10))


def test_a_checkpoint_that_is_written_again_is_no_progress() -> None:
    """The program starts from the beginning each time; a save whose step is unknown counts."""
    policy = dataclasses.replace(POLICY, max_restarts=100)

    def last_of(*steps: int | None) -> commands.Command:
        story = Story(policy).train()
        orders = lives(story, 6)
        for step in steps:
            story.tell(events.CheckpointSaved(step))
            orders += lives(story, 6)
        return orders[-1]

    assert isinstance(last_of(4, 4, 4, 4), commands.Finish)
    assert isinstance(last_of(4, 4, 4), commands.AnnounceRestart)
    assert isinstance(last_of(4, 5, 4, 4), commands.AnnounceRestart)
    assert isinstance(last_of(None, None, None, None), commands.AnnounceRestart)


def test_long_attempts_that_report_no_step_are_no_loop() -> None:
    """They may have trained."""
    story = Story(dataclasses.replace(POLICY, max_restarts=100)).launch()
    story.up()
    for _ in range(5):
        story.now += LOOP_SECONDS + 1
        assert all(isinstance(each, commands.AnnounceRestart) for each in lives(story, 0))


def test_the_same_traceback_twice_is_the_programs_own() -> None:
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    traceback = 'File "train.py", line 3\nValueError: no'
    story.exit(1)
    story.clean(failure=failure()._replace(traceback=traceback))
    story.tell(events.Tick(), after=2.0)
    story.up().exit(1)
    last = story.clean(failure=failure()._replace(traceback=traceback))
    assert "failed with the same traceback, so the program itself is at fault" in finish(last).why
