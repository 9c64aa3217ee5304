"""The controller that began a run is gone, and agents with it: who attaches starts others, or says why."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

AcrossOf = Callable[..., HostsRun]
CANARY = "a secret that only the first controller was given"
SCRIPT = """
import datetime, os, time
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
rank, go, fail = dist.get_rank(), Path(os.environ["GO"]), Path(os.environ["FAIL"])
print("secret of", len(os.environ["THE_KEY"]), flush=True)
step = 0
while True:
    stop = torch.tensor([float(go.exists())])
    dist.all_reduce(stop)
    step += 1
    print("step", step, flush=True)
    if stop.item():
        break
    if rank == 1 and fail.exists() and os.environ["TORCHDECK_ATTEMPT"] == "1":
        raise ValueError("once is enough")
    time.sleep(0.05)
dist.destroy_process_group()
"""


class Begun:
    """A run of two nodes whose controller, and the front end that has the secret, are dead."""

    def __init__(self, hosts: HostsRun, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts, self.go, self.fail = hosts, folder / "go", folder / "fail"
        (folder / "loop.py").write_text(SCRIPT)
        config = {
            "run": {
                "script": "loop.py",
                "env": {"GO": str(self.go), "FAIL": str(self.fail)},
                "secrets": ["THE_KEY"],
            },
            "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu"},
            "limits": {"min_free_disk": "1MiB"},
            "launch": {"kill_grace": 5.0, "max_restarts": 1},
        }
        (folder / "run.toml").write_text(tomlkit.dumps(config))
        monkeypatch.setenv("THE_KEY", CANARY)
        with hosts.command.start("--no-gui", "--trust", folder / "run.toml") as front:
            hosts.wait_begun(front)
            self.wait_step(1)
            self.wait_step(2)
            front.kill()
        monkeypatch.delenv("THE_KEY")
        os.kill(hosts.controller(), signal.SIGKILL)

    def wait_step(self, host: int, attempt: int = 1) -> None:
        """Until the rank of a host is there seen to train."""

        def steps() -> bool:
            log = self.hosts.on(host).attempt(attempt).rank(host - 1).stdout
            return log.exists() and "step 3\n" in log.read_text()

        wait_until(steps, 120, f"step 3 on node{host} in attempt {attempt}")

    def kill_supervision(self, host: int) -> None:
        """SIGKILL to a host's agent and shim, until neither comes back."""

        def gone() -> bool:
            alive = self.hosts.processes(host)
            pids = [*alive.get("holder", ()), *alive.get("agent", ())]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            return not pids

        wait_until(gone, 20, f"agent and holder of node{host} to be gone")


@pytest.mark.soak
@pytest.mark.parametrize("host", [1, 2])
def test_another_controller_starts_an_agent_that_nobody_keeps(
    across: AcrossOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: int
) -> None:
    """Token and secrets come from the agent of the other node: ranks continue, and a restart has the
    secret.
    """
    hosts = across(2)
    begun = Begun(hosts, tmp_path, monkeypatch)
    begun.kill_supervision(host)
    with hosts.command.start("runs", "attach", hosts.run.root.name) as front:
        wait_until(lambda: hosts.processes(host).get("agent"), 60, f"another agent on node{host}")
        hosts.wait_event(host, "agent_started", count=2)
        begun.fail.touch()
        begun.wait_step(1, attempt=2)
        begun.wait_step(2, attempt=2)
        begun.go.touch()
        output, _ = front.communicate(timeout=120)
    assert front.returncode == 0, output
    hosts.wait_empty()
    hosts.wait_controller_gone()
    hosts.assert_mirrored()
    assert read_run(hosts.run).state == "SUCCEEDED"
    assert read_run(hosts.run).attempt == 2
    for rank in (0, 1):
        assert f"secret of {len(CANARY)}" in hosts.run.attempt(2).rank(rank).stdout.read_text()
    assert not _lies_in_a_file(hosts, CANARY)


def _lies_in_a_file(hosts: HostsRun, text: str) -> list[Path]:
    homes = [hosts.command.home, *(hosts.on(host).root.parents[1] for host in (1, 2))]
    files = (path for home in homes for path in home.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.soak
def test_where_no_agent_is_left_the_gang_begins_anew(
    across: AcrossOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents and shims of both nodes are gone: others adopt what runs, under a token of their own."""
    hosts = across(2)
    begun = Begun(hosts, tmp_path, monkeypatch)
    for host in (1, 2):
        begun.kill_supervision(host)
    with hosts.command.start("runs", "attach", hosts.run.root.name) as front:
        for host in (1, 2):
            hosts.wait_event(host, "agent_started", count=2)
        begun.go.touch()
        output, _ = front.communicate(timeout=120)
    assert front.returncode == 0, output
    assert read_run(hosts.run).state == "SUCCEEDED"
    hosts.wait_empty()


@pytest.mark.soak
def test_a_secret_that_nobody_has_any_more_is_named(
    across: AcrossOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the journals is gone: the next attempt cannot start, and the run says what it lacks."""
    hosts = across(2)
    begun = Begun(hosts, tmp_path, monkeypatch)
    for host in (1, 2):
        begun.kill_supervision(host)
    begun.fail.touch()
    done = hosts.command.run("runs", "attach", hosts.run.root.name)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "THE_KEY" in done.stdout + done.stderr
    assert read_run(hosts.run).state == "FAILED"
    hosts.wait_empty()
