"""The gang's decisions, by scripted histories and a clock that only the test moves."""

from __future__ import annotations

import dataclasses

import pytest

from torchdeck.agent import commands as do
from torchdeck.agent import events as on
from torchdeck.agent.escalation import KILL_LIMIT
from torchdeck.agent.gang import NODE_GRACE, QUEUE_RETRY, SWEEP_SLACK, Gang
from torchdeck.agent.past import Past
from torchdeck.plan.policy import Policy

POLICY = Policy(stop_grace=100.0, kill_grace=10.0, restart_delay=2.0)
RECIPE = dataclasses.replace(POLICY, cooperative_stop=True)
GRACEFUL = on.StopRequested("graceful", "user", "r1")
NOW = on.StopRequested("now", "user", "r2")


class Story:
    """A gang and its clock; `tell` feeds events and returns the commands they lead to."""

    def __init__(self, policy: Policy = POLICY, nodes: tuple[str, ...] = ("a",)) -> None:
        self.gang = Gang(nodes, policy)
        self.nodes = nodes
        self.now = 0.0

    def tell(self, *events: on.Event, after: float = 0.0) -> list[do.Command]:
        self.now += after
        return [command for event in events for command in self.gang.handle(event, self.now)]

    def launch(self) -> Story:
        """Up to torchrun running on every node."""
        self.tell(
            *(on.NodeReady(node) for node in self.nodes), *(on.LeasesGranted(node) for node in self.nodes)
        )
        return self.up()

    def up(self) -> Story:
        self.tell(*(on.AttemptLaunched(node, self.gang.number) for node in self.nodes))
        return self

    def train(self) -> Story:
        """Up to training."""
        self.launch()
        number = self.gang.number
        self.tell(*(on.RanksUp(node, number) for node in self.nodes), on.RankProgress(number, 0, 1))
        return self

    def exit(self, code: int | None, node: str = "a", *, completed: bool = False) -> list[do.Command]:
        return self.tell(on.TorchrunExited(node, self.gang.number, code, completed))

    def clean(self, node: str = "a", failure: on.Failure | None = None) -> list[do.Command]:
        return self.tell(on.NodeClean(node, self.gang.number, 0, 0, failure))


def kinds(commands: list[do.Command]) -> list[str]:
    return [type(command).__name__ for command in commands]


def finish(commands: list[do.Command]) -> do.Finish:
    last = commands[-1]
    assert isinstance(last, do.Finish)
    return last


def failure(rank: int | None = 1, time: float = 5.0) -> on.Failure:
    return on.Failure(rank, 1, None, "ValueError: no", None, time)


def test_a_good_run_goes_through_its_states() -> None:
    """Ready, leased, launched, running, exited, swept, judged, finished."""
    story = Story()
    assert story.tell(on.NodeReady("a")) == [do.AcquireLeases("a")]
    assert story.tell(on.LeasesGranted("a")) == [do.LaunchAttempt(1, "first")]
    assert story.tell(on.AttemptLaunched("a", 1)) == []
    assert story.gang.phase == "starting"
    assert story.tell(on.RanksUp("a", 1)) == [do.AnnounceRunning(1)]
    assert story.exit(0) == [do.Sweep("a", 1, 10.0)]
    assert story.clean() == [
        do.EndAttempt(1, "succeeded", None, 0),
        do.Finish("SUCCEEDED", "all ranks finished"),
    ]


def test_a_recipe_runs_only_once_it_trains() -> None:
    """Ranks that are up and load are not yet RUNNING."""
    story = Story(RECIPE).launch()
    assert story.tell(on.RanksUp("a", 1)) == []
    assert story.tell(on.RankProgress(1, 0, 1)) == [do.AnnounceRunning(1)]
    assert story.tell(on.RankProgress(1, 1, 1)) == []


def test_graceful_stop_of_a_recipe_escalates_by_its_graces() -> None:
    """Stop file, stop_grace, SIGTERM, kill_grace, SIGKILL, then a verdict even if nothing dies."""
    story = Story(RECIPE).train()
    assert story.tell(GRACEFUL) == [do.AnnounceStopping("graceful", "user", "r1", ""), do.TouchStop(1)]
    assert story.tell(on.Tick(), after=99.9) == []
    assert story.tell(on.Tick(), after=0.1) == [do.Terminate("a")]
    assert story.tell(on.Tick(), after=9.9) == []
    assert story.tell(on.Tick(), after=0.2) == [do.Kill("a")]
    assert kinds(story.tell(on.Tick(), after=KILL_LIMIT)) == ["EndAttempt", "Finish"]


def test_a_recipe_that_has_not_trained_is_ended_at_once() -> None:
    """There is nothing to save before the first step: SIGTERM."""
    story = Story(RECIPE).launch()
    assert story.tell(GRACEFUL)[1:] == [do.Terminate("a")]
    assert story.gang.deadline == 10.0


def test_a_running_script_has_the_long_grace_after_sigterm() -> None:
    """A script may save on SIGTERM; a second, urgent request shortens that to kill_grace."""
    story = Story().train()
    assert story.tell(GRACEFUL)[1:] == [do.Terminate("a")]
    assert story.gang.deadline == 100.0
    assert story.tell(NOW, after=5.0) == [do.AnnounceStopping("now", "user", "r2", "")]
    assert story.gang.deadline == 15.0


def test_a_third_request_kills() -> None:
    """Asked again for `now` while SIGTERM is ignored: SIGKILL."""
    story = Story(RECIPE).train()
    assert story.tell(GRACEFUL, NOW)[-1] == do.Terminate("a")
    assert story.tell(NOW) == [do.Kill("a")]
    assert story.tell(NOW) == []


def test_the_same_graceful_request_twice_is_one() -> None:
    """A graceful stop does not escalate by being repeated."""
    story = Story(RECIPE).train()
    story.tell(GRACEFUL)
    assert story.tell(GRACEFUL) == []


@pytest.mark.parametrize(
    "before",
    [
        [],
        [on.NodeReady("a")],
        [on.NodeReady("a"), on.LeasesHeld("a", ({"device": "g", "run_id": "r", "name": "n"},))],
    ],
)
def test_a_stop_before_the_launch_finishes(before: list[on.Event]) -> None:
    """Preparing, leasing or queued: CANCELLED at once, and a lease that comes late starts nothing."""
    story = Story(dataclasses.replace(POLICY, queue=True))
    story.tell(*before)
    assert finish(story.tell(GRACEFUL)).state == "CANCELLED"
    assert story.tell(on.LeasesGranted("a"), on.Tick(), after=10.0) == []


def test_a_stop_while_torchrun_comes_up_reaches_it() -> None:
    """The signal is sent as soon as there is somebody to send it to."""
    story = Story()
    story.tell(on.NodeReady("a"), on.LeasesGranted("a"))
    assert kinds(story.tell(GRACEFUL)) == ["AnnounceStopping"]
    assert story.tell(on.AttemptLaunched("a", 1)) == [do.Terminate("a")]


def test_a_stop_between_attempts_finishes() -> None:
    """While a restart is due, the intent is looked at first."""
    story = Story(dataclasses.replace(POLICY, max_restarts=3)).train()
    story.exit(1)
    assert kinds(story.clean(failure=failure())) == ["EndAttempt", "AnnounceRestart"]
    assert finish(story.tell(GRACEFUL)).state == "CANCELLED"
    assert story.tell(on.Tick(), after=100.0) == []


def test_a_recipe_that_finished_before_the_stop_reached_it_succeeded() -> None:
    """All ranks say they did all steps: SUCCEEDED; exit 0 without that is a stop obeyed."""
    for completed, state in ((True, "SUCCEEDED"), (False, "CANCELLED")):
        story = Story(RECIPE).train()
        story.tell(GRACEFUL)
        story.exit(0, completed=completed)
        assert finish(story.clean()).state == state


@pytest.mark.parametrize(
    ("why", "state"), [("user", "CANCELLED"), ("limit", "CANCELLED"), ("disk", "FAILED")]
)
def test_why_a_run_was_stopped_decides_its_state(why: str, state: str) -> None:
    """Wished ends are CANCELLED, forced ones FAILED, and the sentence says which."""
    story = Story(RECIPE).train()
    story.tell(on.StopRequested("graceful", why, None, "the detail"))
    story.exit(0)
    finished = finish(story.clean())
    assert finished.state == state
    assert "the detail" in finished.why


def test_restarts_are_counted_and_delayed() -> None:
    """max_restarts new attempts, each after its delay, then FAILED naming the first failing rank."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    story.exit(1)
    assert story.clean(failure=failure())[-1] == do.AnnounceRestart(1, 2.0, "restart")
    assert story.tell(on.Tick(), after=1.9) == []
    assert story.tell(on.Tick(), after=0.2) == [do.LaunchAttempt(2, "restart")]
    story.up().exit(1)
    assert "rank 1 failed first: ValueError: no" in finish(story.clean(failure=failure())).why


def test_lost_ports_are_not_counted_as_restarts() -> None:
    """Three more tries for the port, then FAILED."""
    story = Story().launch()
    reasons = []
    for _ in range(10):
        story.tell(on.PortLost("a", story.gang.number))
        story.exit(1)
        last = story.clean()[-1]
        if isinstance(last, do.Finish):
            break
        reasons += [
            command.reason
            for command in story.tell(on.Tick(), after=2.0)
            if isinstance(command, do.LaunchAttempt)
        ]
        story.up()
    assert reasons == ["port", "port", "port"]
    assert story.gang.phase == "finished"


def test_a_hang_does_what_the_policy_says() -> None:
    """watch: nothing; stop: SIGTERM and FAILED; restart: SIGTERM and a counted attempt."""
    hang = on.HangFlagged(1, 0, "rank 0 is stopped")
    assert Story(RECIPE).train().tell(hang) == []
    story = Story(dataclasses.replace(RECIPE, on_hang="stop")).train()
    assert kinds(story.tell(hang)) == ["AnnounceStopping", "Terminate"]
    story.exit(1)
    assert finish(story.clean()).state == "FAILED"
    story = Story(dataclasses.replace(RECIPE, on_hang="restart", max_restarts=1)).train()
    assert story.tell(hang) == [do.Terminate("a")]
    story.exit(1)
    assert kinds(story.clean()) == ["EndAttempt", "AnnounceRestart"]
    story.tell(on.Tick(), after=2.0)
    story.up().tell(on.HangFlagged(2, 0, "rank 0 is stopped"))
    story.exit(1)
    assert finish(story.clean()).why == "rank 0 is stopped"


def test_devices_of_another_run_are_refused_or_waited_for() -> None:
    """Without queue: FAILED with whose it is; with: asked again each second, journaled when it changes."""
    held = on.LeasesHeld("a", ({"device": "g", "run_id": "other", "name": "n"},))
    story = Story()
    story.tell(on.NodeReady("a"))
    refused = story.tell(held)
    assert kinds(refused) == ["AnnounceRefused", "Finish"]
    assert "other" in finish(refused).why
    story = Story(dataclasses.replace(POLICY, queue=True))
    story.tell(on.NodeReady("a"))
    assert story.tell(held) == [do.AnnounceQueued(held.held_by)]
    assert story.tell(on.Tick(), after=QUEUE_RETRY) == [do.AcquireLeases("a")]
    assert story.tell(held) == []
    story.tell(on.Tick(), after=QUEUE_RETRY)
    assert story.tell(on.LeasesGranted("a")) == [do.LaunchAttempt(1, "first")]


def test_leases_are_all_or_nothing_over_nodes() -> None:
    """A node whose devices another run holds makes the others give theirs back."""
    story = Story(dataclasses.replace(POLICY, queue=True), ("a", "b"))
    story.tell(on.NodeReady("a"), on.NodeReady("b"), on.LeasesGranted("a"))
    commands = story.tell(on.LeasesHeld("b", ({"device": "g", "run_id": "r", "name": "n"},)))
    assert commands[0] == do.ReleaseLeases("a")
    story.tell(on.Tick(), after=QUEUE_RETRY)
    assert story.tell(on.LeasesGranted("b")) == []
    assert story.tell(on.LeasesGranted("a")) == [do.LaunchAttempt(1, "first")]


def test_a_failure_on_one_node_ends_all() -> None:
    """The other node's torchrun gets SIGTERM, then SIGKILL; the earliest failure is the run's."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(1, "a") == [do.Sweep("a", 1, 10.0), do.Terminate("b")]
    assert story.clean("a", failure(3, 9.0)) == []
    assert story.tell(on.Tick(), after=10.0) == [do.Kill("b")]
    story.exit(137, "b")
    assert "rank 2 failed first" in finish(story.clean("b", failure(2, 8.0))).why


def test_nodes_that_end_well_apart_are_waited_for() -> None:
    """Exit 0 on one node ends nothing on the other, for a while; then it does."""
    story = Story(POLICY, ("a", "b")).train()
    assert story.exit(0, "a") == [do.Sweep("a", 1, 10.0)]
    assert story.tell(on.Tick(), after=NODE_GRACE) == [do.Terminate("b")]


def test_a_lost_node_ends_the_attempt_and_is_not_waited_for() -> None:
    """As if its torchrun were gone and nothing left there; the others are ended, and the run says why."""
    story = Story(nodes=("a", "b")).train()
    orders = story.tell(on.NodeLost("b", "node b has been silent for 120 s"))
    assert orders == [do.Sweep("b", 1, 10.0), do.Terminate("a")]
    assert story.tell(on.NodeLost("b", "again")) == []
    story.exit(143, "a")
    assert finish(story.clean("a")) == do.Finish("FAILED", "node b has been silent for 120 s")


def test_a_node_that_never_comes_fails_the_run() -> None:
    """There is nothing to start without it."""
    story = Story(nodes=("a", "b"))
    story.tell(on.NodeReady("a"))
    assert story.tell(on.NodeLost("b", "silent")) == [do.Finish("FAILED", "silent")]


def test_a_rank_that_failed_explains_more_than_a_lost_node() -> None:
    """The node it was on may be lost for it."""
    story = Story(nodes=("a", "b")).train()
    story.tell(on.NodeLost("b", "silent"))
    story.exit(1, "a")
    assert "rank 1 failed first" in finish(story.clean("a", failure())).why


def test_the_first_failure_of_all_nodes_is_told_by_corrected_times() -> None:
    """Within the clocks' error it is a tie, and said to be one; a killed rank comes before lost peers."""
    late = on.Failure(0, 1, None, "late", None, 5.5, 0.0)
    early = on.Failure(2, 1, None, "early", None, 5.0, 0.01)
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
    story.clean("a", on.Failure(0, 1, None, "connection lost", None, 5.0))
    killed = on.Failure(2, 137, 9, "ended by SIGKILL", None, 5.4, 0.01)
    assert finish(story.clean("b", killed)).why == "rank 2 failed first: ended by SIGKILL"


def test_a_sweep_without_an_answer_ends() -> None:
    """A node that never says it is clean does not hold up the verdict."""
    story = Story().train()
    story.exit(1)
    assert kinds(story.tell(on.Tick(), after=POLICY.kill_grace + SWEEP_SLACK)) == ["EndAttempt", "Finish"]


def test_a_lost_holder_moves_the_leases() -> None:
    """Nothing else changes."""
    assert Story().train().tell(on.HolderLost("a", 1)) == [do.RetakeLeases("a")]


def test_events_of_an_earlier_attempt_do_nothing() -> None:
    """A late exit of attempt 1 is not one of attempt 2."""
    story = Story(dataclasses.replace(POLICY, max_restarts=1)).train()
    story.exit(1)
    story.clean()
    story.tell(on.Tick(), after=2.0)
    assert story.tell(on.TorchrunExited("a", 1, 0, True), on.NodeClean("a", 1, 0, 0, None)) == []


def test_a_gang_taken_over_in_an_attempt_goes_on() -> None:
    """Adopted while running: a stop still goes the cooperative way; adopted while stopping: it is
    stopped again."""
    story = Story(RECIPE)
    assert story.gang.resume(Past(attempt=4, open=True, running=True), 0.0) == []
    assert story.tell(GRACEFUL)[1:] == [do.TouchStop(4)]
    story = Story(RECIPE)
    past = Past(attempt=4, open=True, running=True, stop=("graceful", "user", ""))
    assert story.gang.resume(past, 0.0) == [do.TouchStop(4)]
    story = Story(RECIPE)
    assert story.gang.resume(past._replace(signalled=True), 0.0) == [do.Terminate("a")]


def test_an_exit_told_twice_is_one() -> None:
    """The second one sweeps nothing and judges nothing."""
    story = Story().train()
    assert kinds(story.exit(1)) == ["Sweep"]
    assert story.exit(0) == []


def test_an_adopted_script_keeps_its_long_grace() -> None:
    """It was running before the take-over, so it may save on SIGTERM."""
    story = Story()
    story.gang.resume(Past(attempt=1, open=True, running=True), 0.0)
    assert story.tell(GRACEFUL)[1:] == [do.Terminate("a")]
    assert story.gang.deadline == POLICY.stop_grace


def test_a_gang_taken_over_between_attempts_goes_on() -> None:
    """A restart that was due is made; with a stop journaled it is not; an unjudged end is judged."""
    due = Past(attempt=1, outcome="failed", restart_reason="restart", restarts=1)
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert story.gang.resume(due, 0.0) == []
    assert story.tell(on.Tick(), after=2.0) == [do.LaunchAttempt(2, "restart")]
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert finish(story.gang.resume(due._replace(stop=("now", "user", "")), 0.0)).state == "CANCELLED"
    story = Story(dataclasses.replace(POLICY, max_restarts=1))
    assert kinds(story.gang.resume(Past(attempt=1, outcome="failed"), 0.0)) == ["AnnounceRestart"]
    story = Story()
    assert finish(story.gang.resume(Past(attempt=1, outcome="failed"), 0.0)).state == "FAILED"
