"""The agent on real processes, torchrun played by a quick stand-in (the real one: test_agent_torchrun.py)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.agent_run import AgentRun, Maker, cpu_seconds, with_policy
from support.waiting import wait_until
from torchdeck.agent.local_attempt import LINGER_LIMIT
from torchdeck.rundir.processes import RUN_ID_VARIABLE, ProcessIdentity, processes_of_run

WAITING = """
import os, sys, time
print("up", os.environ["RANK"], os.environ["TORCHDECK_ATTEMPT"])
while True:
    time.sleep(0.05)
"""

COOPERATIVE = """
import os, sys, time
from pathlib import Path
from torchdeck.telemetry.progress import ProgressFile
attempt = Path(os.environ["TORCHDECK_RUN_DIR"]) / "attempts" / os.environ["TORCHDECK_ATTEMPT"]
progress = ProgressFile(attempt / "ranks" / os.environ["RANK"] / "progress")
progress.report("starting", 0)
print("up")
step = 0
while not (attempt / "stop").exists():
    step += 1
    progress.report("training", step, total=10**6, slow_step=0.05)
    time.sleep(0.05)
print("saving")
progress.report("stopping", step)
"""


def kill_and_wait(identity: ProcessIdentity | None) -> None:
    assert identity is not None
    identity.send(signal.SIGKILL)
    wait_until(lambda: not identity.is_alive(), 5, f"{identity} to end")


def test_a_run_that_ends_well_is_succeeded(make_run: Maker) -> None:
    """Both ranks exit with 0: SUCCEEDED, each exit journaled, nothing left alive."""
    run = make_run("import os; print('rank', os.environ['RANK'])").start()
    assert run.finished()["state"] == "SUCCEEDED"
    exits = {event.fields["rank"]: event.fields["code"] for event in run.events("rank_exited")}
    assert exits == {0: 0, 1: 0}
    assert run.stdout(1) == "rank 1\n"
    names = [event.name for event in run.events()]
    assert names[0] == "agent_started"
    assert names[-2:] == ["attempt_ended", "finished"]


def test_the_first_failing_rank_is_named_with_its_traceback(make_run: Maker) -> None:
    """Rank 1 raises, rank 0 dies of SIGTERM for it: the summary names rank 1, its code and its traceback."""
    run = make_run(
        """
        import os, time
        if os.environ["RANK"] == "1":
            raise ValueError("the rank's own words")
        time.sleep(60)
        """
    ).start()
    finished = run.finished()
    failure = run.wait("attempt_ended").fields["first_failure"]
    assert finished["state"] == "FAILED"
    assert "rank 1 failed first: ValueError: the rank's own words (exit code 1)" in finished["why"]
    assert (failure["rank"], failure["code"], failure["signal"]) == (1, 1, None)
    assert failure["traceback"].startswith("Traceback (most recent call last):")
    assert failure["traceback"].endswith("ValueError: the rank's own words")


def test_a_killed_rank_is_named_with_its_signal(make_run: Maker) -> None:
    """kill -9 of a rank: FAILED, with signal 9 and the hint at memory."""
    run = make_run("import os, time; print('pid', os.getpid()); time.sleep(60)").start()
    run.wait_stdout("pid", rank=1)
    os.kill(int(run.stdout(1).split()[1]), signal.SIGKILL)
    finished = run.finished()
    failure = run.wait("attempt_ended").fields["first_failure"]
    assert (failure["rank"], failure["code"], failure["signal"]) == (1, 137, 9)
    assert "SIGKILL" in finished["why"]
    assert "memory" in finished["why"]


def test_a_killed_rank_holder_takes_its_rank_along(make_run: Maker) -> None:
    """kill -9 of a rank's parent: the run fails, and the orphan does not survive it."""
    run = make_run(WAITING).start()
    run.wait_stdout("up", rank=1)
    os.kill(int(run.rank_file(1, "holder.pid").read_text()), signal.SIGKILL)
    assert run.finished()["state"] == "FAILED"


def test_a_killed_agent_is_started_again_and_adopts(make_run: Maker) -> None:
    """kill -9 of the agent: the holder starts another, which takes over and knows how the run ended."""
    run = make_run(
        """
        import os, time
        from pathlib import Path
        print("up")
        while not Path("go").exists():
            time.sleep(0.02)
        """
    ).start()
    run.wait_stdout("up")
    first = run.agent()
    kill_and_wait(first)
    wait_until(lambda: run.agent() is not None and run.agent() != first, 10, "another agent")
    assert run.wait("agent_started", count=2).fields["adopted"] is True
    (run.layout.root / "x").touch()
    working_dir = run.plan.nodes[0].working_dir
    subprocess.run(["touch", "go"], cwd=working_dir, check=True)
    assert run.finished()["state"] == "SUCCEEDED"
    assert len(run.events("attempt_started")) == 1
    assert sorted(event.fields["rank"] for event in run.events("rank_exited")) == [0, 1]


def test_an_agent_killed_while_the_run_ends_leaves_its_status_known(make_run: Maker) -> None:
    """The ranks end while no agent lives: the next one still reads the exit status the holder wrote."""
    run = make_run("import time; print('up'); time.sleep(1); raise SystemExit(7)").start()
    run.wait_stdout("up")
    agent = run.agent()
    kill_and_wait(agent)
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "exit code 7" in finished["why"]


def test_killed_torchrun_ends_the_attempt(make_run: Maker) -> None:
    """kill -9 of torchrun leaves its ranks running: the agent ends them and says what happened."""
    run = make_run(WAITING).start()
    run.wait_stdout("up", rank=1)
    kill_and_wait(run.torchrun())
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "torchrun" in finished["why"]
    assert "SIGKILL" in finished["why"]


def test_a_killed_holder_changes_nothing_for_the_run(make_run: Maker) -> None:
    """kill -9 of the holder: torchrun lives on, and the verdict is read from the ranks' exit files."""
    run = make_run("import time; print('up'); time.sleep(1.5)").start()
    run.wait_stdout("up", rank=1)
    run.wait("attempt_started")
    kill_and_wait(run.holder())
    assert run.finished()["state"] == "SUCCEEDED"


def test_a_killed_holder_does_not_hide_a_failure(make_run: Maker) -> None:
    """The same, where a rank fails."""
    run = make_run(
        "import os, time; print('up'); time.sleep(1.5); os._exit(3 if os.environ['RANK'] == '0' else 0)"
    )
    run.start().wait("attempt_started")
    kill_and_wait(run.holder())
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "rank 0" in finished["why"]


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
        # torchrun, and for each of two ranks: its holder, itself and its child
        assert run.wait("attempt_ended").fields["killed"] >= 7
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_stopped_rank_dies_too(make_run: Maker) -> None:
    """A rank under SIGSTOP does not see SIGTERM; SIGKILL ends it."""
    run = make_run("import os, time; print('pid', os.getpid()); time.sleep(600)").start()
    run.wait_stdout("pid", rank=1)
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


def test_a_program_that_cannot_be_started_fails_with_a_sentence(make_run: Maker) -> None:
    """torchrun's interpreter is not there: FAILED, and the sentence names it."""
    run = make_run("", torchrun=("/nonexistent/python",)).start()
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "/nonexistent/python could not be started" in finished["why"]


def test_a_stopped_rank_is_flagged_and_cleared(make_run: Maker) -> None:
    """SIGSTOP of a rank: flagged by rank and phase with what its process does; SIGCONT clears it."""
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True, hang_after=1.0)).start()
    run.wait("running")
    pid = wait_until(lambda: run.heartbeat().get("ranks", {}).get("1", {}).get("pid"), 10, "rank 1's pid")
    os.kill(pid, signal.SIGSTOP)
    hang = run.wait("hang").fields
    assert (hang["rank"], hang["phase"]) == (1, "training")
    assert "rank 1 is stopped (SIGSTOP)" in hang["detail"]
    os.kill(pid, signal.SIGCONT)
    assert run.wait("hang_over").fields["rank"] == 1


def test_a_hang_restarts_the_gang_where_the_policy_says_so(make_run: Maker) -> None:
    """on_hang = restart: the hung attempt is ended and another one started, counted as a restart."""
    policy = with_policy(cooperative_stop=True, hang_after=1.0, on_hang="restart", max_restarts=1)
    run = make_run(COOPERATIVE, policy=policy).start()
    run.wait("running")
    pid = wait_until(lambda: run.heartbeat().get("ranks", {}).get("0", {}).get("pid"), 10, "rank 0's pid")
    os.kill(pid, signal.SIGSTOP)
    assert run.wait("attempt_started", count=2).fields["reason"] == "restart"
    run.request("stop_now")
    assert run.finished()["state"] == "CANCELLED"


def test_a_device_is_refused_while_another_run_has_it(make_run: Maker) -> None:
    """A second run on the same device does not start, and says whose it is."""
    first = make_run(WAITING, devices=("GPU-1",), name="the first").start()
    first.wait("attempt_started")
    second = make_run(WAITING, devices=("GPU-1",)).start()
    finished = second.finished()
    assert finished["state"] == "FAILED"
    assert first.run_id in finished["why"]
    assert second.events("refused")
    assert not second.events("attempt_started")


def test_a_queued_run_starts_when_the_device_is_free(make_run: Maker) -> None:
    """With queue, the second run waits, and starts once the first ends."""
    first = make_run(WAITING, devices=("GPU-1", "GPU-2"), name="the first").start()
    first.wait("attempt_started")
    second = make_run("print('mine')", devices=("GPU-2",), policy=with_policy(queue=True)).start()
    assert second.wait("queued").fields["held_by"][0]["run_id"] == first.run_id
    first.request("stop_now")
    assert second.finished()["state"] == "SUCCEEDED"


def test_a_queued_run_can_be_stopped(make_run: Maker) -> None:
    """Stopped while queued: CANCELLED, and nothing was started."""
    first = make_run(WAITING, devices=("GPU-1",)).start()
    first.wait("attempt_started")
    second = make_run(WAITING, devices=("GPU-1",), policy=with_policy(queue=True)).start()
    second.wait("queued")
    second.request("stop")
    assert second.finished()["state"] == "CANCELLED"
    assert not second.events("attempt_started")


@pytest.mark.parametrize("victims", [("agent",), ("holder",), ("agent", "holder")])
def test_a_lease_survives_agent_and_holder(make_run: Maker, victims: tuple[str, ...]) -> None:
    """A running run keeps its device when agent or holder is killed (both: once an agent is back)."""
    first = make_run(WAITING, devices=("GPU-1",)).start()
    first.wait("running")
    for victim in victims:
        kill_and_wait(getattr(first, victim)())
        if victim == "agent":
            wait_until(first.agent, 10, "another agent")
            first.wait("agent_started", count=2)
    second = make_run(WAITING, devices=("GPU-1",))
    wait_until(lambda: (first.layout.root.parent.parent / "leases").exists(), 5, "leases")
    time.sleep(0.5)  # the holder's death must have been noticed; there is no file that says so
    second.start()
    assert second.finished()["state"] == "FAILED"
    assert second.events("refused")


def test_a_lease_is_kept_between_attempts_when_the_agent_was_killed(make_run: Maker) -> None:
    """An agent that took over restarts the gang on its device: a queued run does not come in between."""
    policy = with_policy(max_restarts=1, restart_delay=3.0)
    first = make_run(WAITING, devices=("GPU-1",), policy=policy).start()
    first.wait("running")
    kill_and_wait(first.agent())
    first.wait("agent_started", count=2)
    second = make_run(WAITING, devices=("GPU-1",), policy=with_policy(queue=True)).start()
    second.wait("queued")
    kill_and_wait(first.torchrun())
    first.wait("running", count=2)
    assert not second.events("attempt_started")
    first.request("stop_now")
    assert first.finished()["state"] == "CANCELLED"
    second.wait("attempt_started")


def test_no_agent_starts_ranks_on_devices_that_another_run_took(make_run: Maker) -> None:
    """Agent and holder died between two attempts, and the device went: the attempt fails and says why."""
    policy = with_policy(max_restarts=1, restart_delay=4.0)
    first = make_run("raise SystemExit(1)", devices=("GPU-1",), policy=policy).start()
    first.wait("restarting")
    kill_and_wait(first.holder())
    kill_and_wait(first.agent())
    second = make_run(WAITING, devices=("GPU-1",)).start()
    second.wait("attempt_started")
    first.start()
    finished = first.finished()
    assert finished["state"] == "FAILED"
    assert "another run has taken device" in finished["why"]


def test_a_deleted_run_directory_ends_the_run(make_run: Maker) -> None:
    """What nobody can see or stop any more is not left running; nor are those who supervised it."""
    run = make_run(WAITING).start()
    run.wait("running")
    kept = [run.agent(), run.holder(), run.torchrun()]
    doomed = run.layout.root.with_name("doomed")  # files that are written meanwhile would stop a mere rmtree
    run.layout.root.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    wait_until(
        lambda: not processes_of_run(run.run_id) and not any(item and item.is_alive() for item in kept),
        20,
        "the processes to end",
    )


def test_a_torchrun_that_outstays_its_ranks_is_ended(make_run: Maker, tmp_path: Path) -> None:
    """All ranks ended well, torchrun stands still: the run ends by what the ranks say, and not never."""
    go = tmp_path / "go"
    text = f"""
        import time; from pathlib import Path
        print("up", flush=True)
        while not Path({str(go)!r}).exists(): time.sleep(0.02)
    """
    run = make_run(text).start()
    run.wait_stdout("up", rank=1)
    torchrun = run.torchrun()
    assert torchrun is not None
    os.kill(torchrun.pid, signal.SIGSTOP)
    go.touch()
    finished = run.finished(LINGER_LIMIT + 30)
    assert finished["state"] == "SUCCEEDED"
    assert run.events("signalled")[0].fields["signal"] == "SIGKILL"


def test_only_one_agent_supervises(make_run: Maker) -> None:
    """A second agent on the same node of the same run leaves with its own exit code."""
    run = make_run(WAITING).start()
    run.wait("attempt_started")
    run.start()
    assert run.agents[-1].wait(10) == 4
    assert len(run.events("agent_started")) == 1


def test_an_agent_started_on_a_finished_run_leaves_at_once(make_run: Maker) -> None:
    """Nothing is journaled twice, nothing is started again."""
    run = make_run("print('ok')").start()
    run.finished()
    before = len(run.events())
    run.start()
    assert run.agents[-1].wait(10) == 0
    assert len(run.events()) == before


def test_processes_of_a_power_cut_are_not_taken_for_running(make_run: Maker) -> None:
    """The journal ends in mid-attempt, and the identities are of another boot: FAILED, never RUNNING
    for ever."""
    run = make_run(WAITING).start()
    run.wait("attempt_started")
    run.clean_up()
    path = run.layout.attempt(1).node("localhost").holder
    path.write_text(path.read_text().replace('"boot": "', '"boot": "another-'))
    run.start()
    assert run.finished()["state"] == "FAILED"


def test_a_stop_wish_outlives_the_agent(make_run: Maker) -> None:
    """The agent is killed after the stop was journaled: the next one finishes it and does not restart
    the gang."""
    policy = with_policy(max_restarts=3, kill_grace=3.0)
    run = make_run(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(600)", policy=policy
    )
    run.start().wait_stdout("up", rank=1)
    run.request("stop_now")
    run.wait("stopping")
    kill_and_wait(run.agent())
    assert run.finished()["state"] == "CANCELLED"
    assert len(run.events("attempt_started")) == 1


def test_stdout_numbers_are_read_once_across_agents(make_run: Maker) -> None:
    """Every printed loss becomes one row, though the agent is killed again and again."""
    run = make_run(
        """
        import os, time
        for step in range(150):
            if os.environ["RANK"] == "0":
                print(f"step {step}: loss {1000 - step}.5")
            time.sleep(0.03)
        """
    ).start()
    for wanted in ("step 20:", "step 60:", "step 100:"):
        run.wait_stdout(wanted)
        agent = run.agent()
        if agent is not None:
            kill_and_wait(agent)
            wait_until(lambda: run.agent() is not None, 10, f"another agent {run.describe()}")
    assert run.finished()["state"] == "SUCCEEDED"
    assert printed_steps(run) == list(range(150))


def printed_steps(run: AgentRun) -> list[int]:
    """Steps of rank 0's rows from stdout, in order."""
    import struct

    from torchdeck.telemetry.segment_format import decode_header

    steps = []
    for path in run.layout.attempt(1).rank(0).metrics.glob("*.metrics"):
        content = path.read_bytes()
        header = decode_header(content)
        assert header is not None
        assert header.source == "stdout"
        for start in range(header.length, len(content), header.row_bytes):
            step, _, *values = struct.unpack_from(f"<qd{len(header.keys)}d", content, start)
            assert values[header.keys.index("loss")] == 1000 - step + 0.5
            steps.append(step)
    return sorted(steps)


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
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True, max_seconds=1.5)).start()
    finished = run.finished()
    assert finished["state"] == "CANCELLED"
    assert "limit" in finished["why"]
    assert "saving" in run.stdout(0)


def test_the_heartbeat_shows_every_rank(make_run: Maker) -> None:
    """Phase, step, age and pid of each rank; identities of agent, torchrun and holder; free disk and
    memory."""
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    beat = wait_until(
        lambda: beat if len((beat := run.heartbeat()).get("rss_bytes", {})) == 2 else {}, 10, "memory"
    )
    assert beat["phase"] == "running"
    assert {rank["phase"] for rank in beat["ranks"].values()} == {"training"}
    assert all(rank["step"] > 0 and rank["still"] < 5 and rank["pid"] for rank in beat["ranks"].values())
    assert ProcessIdentity.from_json(beat["agent"]) == run.agent()
    assert ProcessIdentity.from_json(beat["holder"]) == run.holder()
    assert ProcessIdentity.from_json(beat["torchrun"]) == run.torchrun()
    assert beat["disk_free"] > 0


def test_agent_and_holder_cost_next_to_nothing(make_run: Maker) -> None:
    """Together under 1 % of a core while a run goes on."""
    run = make_run(COOPERATIVE, policy=with_policy(cooperative_stop=True)).start()
    run.wait("running")
    agent, holder = run.agent(), run.holder()
    assert agent is not None
    assert holder is not None
    wait_until(lambda: run.heartbeat().get("rss_bytes"), 10, "the first sample")
    before = cpu_seconds(agent) + cpu_seconds(holder)
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > 8, 20, "time to pass", every=0.5)
    used = cpu_seconds(agent) + cpu_seconds(holder) - before
    assert used / (time.monotonic() - begun) < 0.01


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
