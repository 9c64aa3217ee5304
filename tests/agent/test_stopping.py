"""Stops that were asked for, by people, a time limit or a full disk: how ranks are told, and made to end."""

from __future__ import annotations

import os
import signal
import subprocess

from support.agents.agent_run import Maker, with_policy
from support.agents.agent_scripts import COOPERATIVE, WAITING
from torchdeck.contract.processes import RUN_ID_VARIABLE


def test_a_script_is_stopped_by_sigterm_and_not_resumable(make_run: Maker) -> None:
    """A graceful stop of a script: SIGTERM, CANCELLED, acknowledged, not resumable."""
    run = make_run(WAITING).start()
    run.wait("running")
    request = run.request("stop")
    finished = run.finished()
    assert (finished["state"], finished["resumable"]) == ("CANCELLED", False)
    assert [event.fields["id"] for event in run.events("request")] == [request]
    assert run.wait("stopping").fields["request"] == request
    assert run.wait("attempt_ended").fields["outcome"] == "stopped"


def test_a_cooperative_run_stops_by_the_stop_file(make_run: Maker) -> None:
    """A graceful stop of a recipe: ranks see the file and end by themselves; no signal is sent."""
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    for rank in (0, 1):  # one that is to start Python yet could take longer than it is waited for
        run.wait_stdout("up", rank=rank)
    run.request("stop")
    finished = run.finished()
    assert finished["state"] == "CANCELLED"
    assert "saving" in run.stdout(0)
    assert not run.events("signalled")
    assert finished["resumable"] is False  # no checkpoint was saved


def test_a_rank_that_ignores_everything_is_killed(make_run: Maker) -> None:
    """Forced stop of ranks that ignore SIGTERM, with children in sessions of their own: none survives."""
    run = make_run(
        """
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print("up")
        time.sleep(600)
        """
    ).start()
    run.wait_stdout("up", rank=0)
    run.wait_stdout("up", rank=1)
    bystander = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_ID_VARIABLE: run.run_id + "x"})
    try:
        run.request("stop_now")
        assert run.finished()["state"] == "CANCELLED"
        assert run.wait("attempt_ended").fields["outcome"] == "stopped"
        assert [event.fields["signal"] for event in run.events("signalled")] == ["SIGTERM", "SIGKILL"]
        # torchrun, and for each of two ranks: its shim, itself and its child
        assert run.wait("attempt_ended").fields["killed"] >= 7
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_stopped_rank_dies_too(make_run: Maker) -> None:
    """A rank under SIGSTOP does not see SIGTERM; SIGKILL ends it."""
    run = make_run("import os, time; print('pid', os.getpid()); time.sleep(600)").start()
    run.wait_stdout("\n", rank=1)  # `print` writes word by word
    os.kill(int(run.stdout(1).split()[1]), signal.SIGSTOP)
    run.request("stop_now")
    assert run.finished()["state"] == "CANCELLED"


def test_a_stop_between_two_attempts_ends_the_run(make_run: Maker) -> None:
    """While the next attempt is due, a stop finishes at once and nothing is started."""
    run = make_run("raise SystemExit(1)", policy=with_policy(max_restarts=5, restart_delay=60.0)).start()
    run.wait("restarting")
    run.request("stop")
    assert run.finished()["state"] == "CANCELLED"
    assert len(run.events("attempt_started")) == 1


def test_a_nearly_full_disk_stops_the_run(make_run: Maker) -> None:
    """Less free than must be: the wish to stop is journaled with why, and the run ends FAILED."""
    policy = with_policy(cooperative_stop=True, min_free_bytes=1 << 60)
    run = make_run(COOPERATIVE, policy=policy).start()
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "disk" in finished["why"]
    assert run.wait("disk_low").fields["needed"] == 1 << 60
    assert run.wait("stopping").fields["why"] == "disk"


def test_a_time_limit_stops_the_run(make_run: Maker) -> None:
    """After max_seconds a cooperative run stops as if asked."""
    limit = 1.5
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True, max_seconds=limit)).start()
    finished = run.finished()
    while not run.events("running") and limit < 30:  # Python takes so long to start here that no rank trained
        limit *= 4
        run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True, max_seconds=limit)).start()
        finished = run.finished(limit + 40)
    assert finished["state"] == "CANCELLED"
    assert "limit" in finished["why"]
    assert "saving" in run.stdout(0)
