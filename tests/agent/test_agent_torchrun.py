"""The agent under the real torchrun: slow, so only what a stand-in could get wrong."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from support.agents.agent_run import NODE, QUICK, Maker, with_policy
from support.waiting import wait_until
from torchdeck.contract.processes import ProcessIdentity

pytest.importorskip("torch", reason="torchrun comes with torch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
LIMIT = 90.0
WAITING = "import os, time; print('pid', os.getpid())\nwhile True: time.sleep(0.05)"


@pytest.mark.soak  # every whole run here shows it
def test_success_under_torchrun(make_run: Maker) -> None:
    """Ranks see torchrun's variables and ours; both end with 0."""
    run = make_run(
        "import os; print(*map(os.environ.get, ('RANK', 'WORLD_SIZE', 'TORCHDECK_RUN_ID', 'MASTER_PORT')))",
        torchrun=TORCHRUN,
    ).start()
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"
    port = run.events("attempt_started")[0].fields["port"]
    assert run.stdout(1) == f"1 2 {run.run_id} {port}\n"


@pytest.mark.soak
def test_a_recorded_failure_under_torchrun(make_run: Maker) -> None:
    """A rank whose entry point is wrapped in @record: its traceback is in error.json of our folder,
    and is found."""
    run = make_run(
        """
        import os, time
        from torch.distributed.elastic.multiprocessing.errors import record

        @record
        def main():
            if os.environ["RANK"] == "1":
                raise KeyError("the rank's own words")
            time.sleep(60)

        main()
        """,
        torchrun=TORCHRUN,
    ).start()
    finished = run.finished(LIMIT)
    failure = run.wait("attempt_ended").fields["first_failure"]
    assert finished["state"] == "FAILED"
    assert failure["rank"] == 1
    assert "the rank's own words" in failure["message"]
    assert "in main" in failure["traceback"]
    assert run.rank_file(1, "error.json").exists()


def test_killed_torchrun_and_its_orphans(make_run: Maker) -> None:
    """kill -9 of torchrun orphans its ranks, in sessions of their own: they are ended."""
    run = make_run(WAITING, torchrun=TORCHRUN).start()
    run.wait_stdout("pid", rank=1, seconds=LIMIT)
    torchrun = run.torchrun()
    assert torchrun is not None
    torchrun.send(signal.SIGKILL)
    finished = run.finished(LIMIT)
    assert finished["state"] == "FAILED"
    assert "torchrun ended by SIGKILL" in finished["why"]


def test_a_killed_rank_holder_is_named(make_run: Maker) -> None:
    """It leaves no exit file; torchrun's log says which rank it was."""
    run = make_run(WAITING, torchrun=TORCHRUN).start()
    run.wait_stdout("pid", rank=1, seconds=LIMIT)
    os.kill(int(run.rank_file(1, "holder.pid").read_text()), signal.SIGKILL)
    finished = run.finished(LIMIT)
    assert finished["state"] == "FAILED"
    assert "rank 1" in finished["why"]
    assert "SIGKILL" in finished["why"]


@pytest.mark.soak
def test_a_forced_stop_under_torchrun(make_run: Maker) -> None:
    """Ranks that ignore SIGTERM, one of them stopped by SIGSTOP: killed after kill_grace, not
    torchrun's 30 s."""
    run = make_run(
        "import os, signal as s, time; s.signal(15, s.SIG_IGN); print('pid', os.getpid()); time.sleep(99)",
        torchrun=TORCHRUN,
    ).start()
    for rank in (0, 1):
        run.wait_stdout("\n", rank=rank, seconds=LIMIT)  # `print` writes word by word
    os.kill(int(run.stdout(1).split()[1]), signal.SIGSTOP)
    run.request("stop_now")
    assert run.finished(LIMIT)["state"] == "CANCELLED"
    term, kill = run.events("signalled")
    assert (term.fields["signal"], kill.fields["signal"]) == ("SIGTERM", "SIGKILL")
    assert kill.fields["count"] >= 2  # the ranks were alive: torchrun had not killed them yet


def test_a_stop_before_torchrun_is_up(make_run: Maker) -> None:
    """Asked in the second in which torchrun imports torch: SIGTERM ends it all the same."""
    run = make_run(WAITING, torchrun=TORCHRUN).start()
    run.wait("attempt_started")
    run.request("stop")
    assert run.finished(LIMIT)["state"] == "CANCELLED"
    assert [event.fields["signal"] for event in run.events("signalled")][:1] == ["SIGTERM"]


def test_a_taken_port_is_recognised_in_torchruns_words(
    make_run: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone listens on the port: the attempt ends as a lost port, and the next one takes another."""
    with socket.socket() as foreign:
        foreign.bind(("0.0.0.0", 0))  # noqa: S104 - the port must be taken on every address
        foreign.listen()
        port = foreign.getsockname()[1]
        # the first attempt gets the taken port, as if it had been taken after it was chosen
        wrapper = (
            "import os, sys; a = sys.argv[1:]; i = a.index('--master-port') + 1\n"
            f"if os.environ['TORCHDECK_ATTEMPT'] == '1': a[i] = '{port}'\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'torch.distributed.run', *a])"
        )
        run = make_run("print('ok')", torchrun=(sys.executable, "-c", wrapper)).start()
        assert run.finished(LIMIT)["state"] == "SUCCEEDED"
    assert [event.fields["reason"] for event in run.events("attempt_started")] == ["first", "port"]


@pytest.mark.soak  # of training: tests/integration/test_survival.py
def test_two_gloo_ranks_survive_the_agents_death(make_run: Maker, tmp_path: Path) -> None:
    """Ranks that all-reduce continue while the agent is killed; the result is known to the next agent."""
    run = make_run(
        """
        import datetime, time, torch, torch.distributed as dist
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
        for step in range(20):
            value = torch.ones(1)
            dist.all_reduce(value)
            assert value.item() == 2
            print("step", step, flush=True)
            time.sleep(0.1)
        dist.destroy_process_group()
        """,
        torchrun=TORCHRUN,
        policy=QUICK,
    ).start()
    run.wait_stdout("step 3", seconds=LIMIT)
    agent = run.agent()
    assert agent is not None
    agent.send(signal.SIGKILL)
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"
    assert len(run.events("agent_started")) == 2


@pytest.mark.soak  # of training: tests/integration/test_resume.py; on a fresh port: what is above
def test_a_gang_restarts_under_torchrun(make_run: Maker) -> None:
    """One rank fails in the first attempt; the second attempt is a fresh torchrun on a fresh port."""
    run = make_run(
        "import os, sys; sys.exit(3 if os.environ['TORCHDECK_ATTEMPT'] + os.environ['RANK'] == '10' else 0)",
        torchrun=TORCHRUN,
        policy=with_policy(max_restarts=1),
    ).start()
    assert run.finished(LIMIT)["state"] == "SUCCEEDED"
    assert run.wait("attempt_ended").fields["first_failure"]["code"] == 3


@pytest.mark.soak  # each by itself above, both and the agent in tests/integration/test_survival.py
def test_holder_and_torchrun_killed_together(make_run: Maker) -> None:
    """No one is left who saw an exit status: the agent ends the orphans and the run is FAILED."""
    run = make_run(WAITING, torchrun=TORCHRUN).start()
    run.wait_stdout("pid", rank=1, seconds=LIMIT)
    identities = [ProcessIdentity.from_json(run.holder_json().get(name)) for name in ("holder", "torchrun")]
    for identity in identities:
        assert identity is not None
        identity.send(signal.SIGKILL)
    assert run.finished(LIMIT)["state"] == "FAILED"
    wait_until(lambda: not run.alive(), 10, "orphans to end")
    assert not run.layout.attempt(1).node(NODE).exit.exists()
