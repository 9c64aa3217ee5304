"""How runs end, on real processes; torchrun is played by a stand-in (the real one: test_agent_torchrun)."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from support.agents.agent_run import Maker
from support.agents.agent_scripts import WAITING, kill_and_wait
from support.waiting import wait_until
from torchdeck.agent.attempt.local_attempt import LINGER_LIMIT
from torchdeck.contract.processes import processes_of_run


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
    run.wait_stdout("\n", rank=1)  # `print` writes word by word
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


def test_killed_torchrun_ends_the_attempt(make_run: Maker) -> None:
    """kill -9 of torchrun leaves its ranks running: the agent ends them and says what happened."""
    run = make_run(WAITING).start()
    run.wait_stdout("up", rank=1)
    kill_and_wait(run.torchrun())
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "torchrun" in finished["why"]
    assert "SIGKILL" in finished["why"]


def test_a_program_that_cannot_be_started_fails_with_a_sentence(make_run: Maker) -> None:
    """torchrun's interpreter is not there: FAILED, and the sentence names it."""
    run = make_run("", torchrun=("/nonexistent/python",)).start()
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "/nonexistent/python could not be started" in finished["why"]


def test_a_deleted_run_directory_ends_the_run(make_run: Maker) -> None:
    """What no one can see or stop any more is not left running; nor are those who supervised it."""
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
    """All ranks ended well, torchrun is stalled: the run ends by what the ranks say, and not never."""
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
