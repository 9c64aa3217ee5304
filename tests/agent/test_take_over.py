"""Agents and shims that die: another goes on where they were, and nothing is lost or done twice."""

from __future__ import annotations

import signal
from pathlib import Path

from support.agents.agent_run import AgentRun, Maker, with_policy
from support.agents.agent_scripts import WAITING, kill_and_wait
from support.waiting import wait_until
from torchdeck.agent.processes.shim import PROCESS_NAME
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState

UNTIL_GO = """
import os, time
from pathlib import Path
print("up")
while not Path("go").exists():
    time.sleep(0.02)
"""


def go(run: AgentRun) -> None:
    """The ranks may end."""
    (Path(run.plan.nodes[0].working_dir) / "go").touch()


def test_a_killed_agent_is_started_again_and_adopts(make_run: Maker) -> None:
    """kill -9 of the agent: the shim starts another, which takes over and knows how the run ended."""
    run = make_run(UNTIL_GO).start()
    run.wait_stdout("up")
    first = run.agent()
    kill_and_wait(first)
    wait_until(lambda: run.agent() is not None and run.agent() != first, 10, "another agent")
    assert run.wait("agent_started", count=2).fields["adopted"] is True
    (run.layout.root / "x").touch()
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"
    assert len(run.events("attempt_started")) == 1
    assert sorted(event.fields["rank"] for event in run.events("rank_exited")) == [0, 1]


def test_an_agent_killed_while_the_run_ends_leaves_its_status_known(make_run: Maker) -> None:
    """The ranks end while no agent lives: the next one still reads the exit status the shim wrote."""
    run = make_run(UNTIL_GO + "raise SystemExit(7)").start()
    run.wait_stdout("up")
    run.wait("attempt_started")
    holder, torchrun = run.holder(), run.torchrun()
    assert holder is not None
    assert torchrun is not None
    holder.send(signal.SIGSTOP)  # or it would start another agent meanwhile
    kill_and_wait(run.agent())
    go(run)
    wait_until(lambda: not torchrun.is_alive(), 30, "torchrun to end")
    holder.send(signal.SIGCONT)
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "exit code 7" in finished["why"]


def test_a_killed_holder_changes_nothing_for_the_run(make_run: Maker) -> None:
    """kill -9 of the shim: torchrun lives on, and the verdict is read from the ranks' exit files."""
    run = make_run(UNTIL_GO).start()
    run.wait_stdout("up", rank=1)
    run.wait("attempt_started")
    holder = run.holder()
    assert holder is not None
    assert Path(f"/proc/{holder.pid}/comm").read_text() == f"{PROCESS_NAME}\n"
    kill_and_wait(holder)
    go(run)
    assert run.finished()["state"] == "SUCCEEDED"


def test_a_killed_holder_does_not_hide_a_failure(make_run: Maker) -> None:
    """The same, where a rank fails."""
    run = make_run(UNTIL_GO + "os._exit(3 if os.environ['RANK'] == '0' else 0)")
    run.start().wait("attempt_started")
    kill_and_wait(run.holder())
    go(run)
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "rank 0" in finished["why"]


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
    run.wait("running")
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

    from torchdeck.contract.metrics.segment_format import decode_header

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


def test_ranks_that_end_after_agent_and_shim_say_how_the_run_ended(make_run: Maker) -> None:
    """kill -9 of both, and no process is left to write it: the run is not LOST."""
    run = make_run(UNTIL_GO).start()
    run.wait_stdout("up", rank=0)
    run.wait_stdout("up", rank=1)
    run.wait("running")
    holder, torchrun = run.holder(), run.torchrun()
    assert holder is not None
    assert torchrun is not None
    holder.send(signal.SIGSTOP)  # or it would start another agent
    kill_and_wait(run.agent())
    kill_and_wait(holder)
    assert read_run(run.layout).state is RunState.RUNNING
    go(run)
    wait_until(lambda: not run.alive(), 30, "the ranks to end")
    found = read_run(run.layout)
    assert (found.state, found.exit_code) == (RunState.SUCCEEDED, 0)
    assert "the agent ended before it could write the run's end" in found.why


SAVES = """
import os, time
from pathlib import Path
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, write_inside_state
attempt = RunLayout(Path(os.environ["TORCHDECK_RUN_DIR"])).attempt(1)
rank = attempt.rank(int(os.environ["RANK"]))
write_inside_state(rank.inside, InsideState("Hugging Face Trainer", saves_on_stop=True))
while not attempt.stop.exists():
    time.sleep(0.02)
write_inside_state(rank.inside, InsideState("Hugging Face Trainer", saves_on_stop=False))
print("saving")
while not Path("go").exists():
    time.sleep(0.02)
print("saved")
"""


def test_a_script_that_saves_on_a_stop_is_not_disturbed_by_a_killed_agent(make_run: Maker) -> None:
    """The next agent knows that the script was asked to save, although it has ceased to say that it does."""
    run = make_run(SAVES, policy=with_policy(stop_grace=60.0)).start()
    run.wait("saves_on_stop")
    run.request("stop")
    run.wait_stdout("saving")
    run.wait_stdout("saving", rank=1)
    wait_until(lambda: len(run.events("saves_on_stop")) == 2, 10, "the end of it to be journaled")
    kill_and_wait(run.agent())
    run.wait("agent_started", count=2)
    wait_until(lambda: run.heartbeat().get("phase") == "stopping", 10, "the stop to continue")
    go(run)
    assert run.finished()["state"] == "CANCELLED"
    assert run.stdout() == "saving\nsaved\n"
    assert run.events("signalled") == []
