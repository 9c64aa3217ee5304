"""Another attempt after one that failed, and another life of a run that is finished."""

from __future__ import annotations

import subprocess
import sys

from support.agents.agent_run import Maker, with_policy
from support.agents.agent_scripts import kill_and_wait


def test_a_failed_gang_is_started_again_as_often_as_allowed(make_run: Maker) -> None:
    """max_restarts relaunches the whole gang as new attempts, then the run fails."""
    run = make_run("raise SystemExit(1)", policy=with_policy(max_restarts=2)).start()
    assert run.finished()["state"] == "FAILED"
    assert [event.fields["attempt"] for event in run.events("attempt_started")] == [1, 2, 3]
    assert [event.fields["reason"] for event in run.events("attempt_started")] == [
        "first",
        "restart",
        "restart",
    ]


def test_a_second_attempt_may_succeed(make_run: Maker) -> None:
    """What failed once and then works is SUCCEEDED; each attempt keeps its own logs."""
    run = make_run(
        "import os; n = os.environ['TORCHDECK_ATTEMPT']; print('attempt', n); raise SystemExit(n == '1')",
        nproc=1,  # a second rank that fails first would have this one ended before it writes
        policy=with_policy(max_restarts=1),
    ).start()
    assert run.finished()["state"] == "SUCCEEDED"
    assert (run.stdout(0, 1), run.stdout(0, 2)) == ("attempt 1\n", "attempt 2\n")


def test_a_lost_port_is_tried_again_and_not_counted(make_run: Maker) -> None:
    """A port taken between choice and use: a new attempt with another port, though no restarts are
    allowed."""
    run = make_run("print('ok')", env={"FAKE_TAKEN_ATTEMPTS": "1,2"}).start()
    assert run.finished()["state"] == "SUCCEEDED"
    assert [event.fields["reason"] for event in run.events("attempt_started")] == ["first", "port", "port"]


def test_a_port_that_stays_lost_fails_the_run(make_run: Maker) -> None:
    """Three tries more, then FAILED."""
    run = make_run("print('ok')", env={"FAKE_TAKEN_ATTEMPTS": "1,2,3,4,5"}).start()
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "EADDRINUSE" in finished["why"]
    assert len(run.events("attempt_started")) == 4


def test_a_run_under_a_path_with_a_space_in_a_resumed_life(make_run: Maker) -> None:
    """A finished run that is resumed begins a new life in the same directory, attempts counted on."""
    run = make_run("import os; raise SystemExit(os.environ['TORCHDECK_ATTEMPT'] == '1')").start()
    assert run.finished()["state"] == "FAILED"
    main = [sys.executable, "-I", "-B", *map(str, run.agents[0].args[3:])]  # type: ignore[index]
    with run.node.log.open("ab") as log:
        run.agents.append(
            subprocess.Popen([*main, "--life", "1"], stdout=log, stderr=log, start_new_session=True)
        )
    assert run.wait("finished", count=2).fields["state"] == "SUCCEEDED"
    assert [event.fields["attempt"] for event in run.events("attempt_started")] == [1, 2]


def test_a_crash_loop_ends_with_its_reason(make_run: Maker) -> None:
    """A program that fails before its first step is not restarted a hundred times."""
    run = make_run("raise ValueError('no data')", nproc=1, policy=with_policy(max_restarts=100)).start()
    why = run.finished()["why"]
    assert len(run.events("attempt_started")) == 3
    assert "without a new step or checkpoint" in why


def test_a_crash_loop_is_noticed_by_agents_that_are_killed_in_between(make_run: Maker) -> None:
    """Each agent continues the count, and knows the traceback of the attempt before its own."""
    policy = with_policy(max_restarts=100, restart_delay=2.0)
    run = make_run("raise ValueError('no data')", nproc=1, policy=policy).start()
    for count in (1, 2):
        run.wait("restarting", count=count)
        kill_and_wait(run.agent())
        run.wait("agent_started", count=count + 1)
    why = run.finished()["why"]
    assert len(run.events("attempt_started")) == 3
    assert "3 attempts in a row ended without a new step or checkpoint" in why
    assert "the same traceback" in why
