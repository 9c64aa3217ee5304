"""Ranks of two hosts fail one soon after the other: corrected clocks tell who was first, or nothing does."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from support.hosts.hosts_run import HostsRun
from support.links.slow_link import SlowLink
from support.waiting import wait_until

AcrossOf = Callable[..., HostsRun]
SCRIPT = """
import os, time
from pathlib import Path
import torch.distributed as dist
dist.init_process_group("gloo")
rank, fail = dist.get_rank(), Path(os.environ["FAIL"])
print("up", flush=True)
while not fail.exists():
    time.sleep(0.02)
time.sleep(max(0.0, float(fail.read_text().split()[rank]) - time.time()))
os._exit(3 + rank)
"""
APART = 0.5
"""Seconds between two failures: less than torchrun takes to tell of the first."""
LATE = 0.25
"""Seconds on the way between the agents, which is by how much the clocks' offset may be wrong then."""


class Failing:
    """A script on two nodes whose ranks fail each at its time."""

    def __init__(self, hosts: HostsRun, folder: Path, **env: str) -> None:
        self._fail, self._hosts = folder / "fail", hosts
        work = folder / "work"
        work.mkdir()
        (work / "failing.py").write_text(SCRIPT)
        config = {
            "run": {"script": "failing.py", "env": {"FAIL": str(self._fail), **env}},
            "distributed": {"nodes": ["node1", "node2"], "nproc": 1, "devices": "cpu"},
            "limits": {"min_free_disk": "1MiB"},
        }
        self.file = work / "run.toml"
        self.file.write_text(tomlkit.dumps(config))

    def wait_up(self) -> None:
        """Until both ranks wait for their time."""
        logs = [self._hosts.on(host).attempt(1).rank(host - 1).stdout for host in (1, 2)]
        wait_until(lambda: all(log.exists() and "up" in log.read_text() for log in logs), 90, "both ranks")

    def fail(self, *delays: float) -> None:
        """Each rank fails so many seconds from now, by this machine's clock."""
        begun = time.time() + 1.0
        made = self._fail.with_suffix(".tmp")
        made.write_text(" ".join(str(begun + delay) for delay in delays))
        made.rename(self._fail)

    def told(self) -> Mapping[str, Any]:
        """The failure that is named; both ranks have failed by themselves."""
        for rank in (0, 1):
            assert self._hosts.run.attempt(1).rank(rank).exit.read_text().strip() == str(3 + rank)
        told: Mapping[str, Any] = self._hosts.events(1, "attempt_ended")[-1].fields["first_failure"]
        return told


@pytest.mark.soak
def test_a_tie_is_said_to_be_one(across: AcrossOf, tmp_path: Path) -> None:
    """The agents' way is so long that no offset is known better: neither of two ranks is called the first."""
    hosts = across(2)
    failing = Failing(hosts, tmp_path)
    with hosts.command.start("--no-gui", "--trust", failing.file) as front:
        hosts.wait_begun(front)
        failing.wait_up()
        port = hosts.wait_event(1, "listening")["port"]
        with SlowLink(hosts.made.address(1), port, delay=LATE, listen=hosts.made.here) as link:
            hosts.made.redirect(2, 1, port, link.port)
            hosts.kill(1, "agent")  # the next one measures again, by the new way
            wait_until(lambda: _errors(hosts) and _errors(hosts)[-1] >= LATE, 60, "a clock of the long way")
            failing.fail(0.0, LATE / 2)
            output, _ = front.communicate(timeout=60)
    assert front.returncode == 1, output
    hosts.wait_empty()
    told = failing.told()
    assert sorted([told["rank"], *told["tied"]]) == [0, 1]
    first, other = told["rank"], told["tied"][0]
    assert f"rank {first} on node node{first + 1} failed at the same time as rank {other}" in output
    assert "failed first" not in output


@pytest.mark.soak
@pytest.mark.parametrize("first", [0, 1])
def test_a_shifted_clock_changes_no_order(across: AcrossOf, tmp_path: Path, first: int) -> None:
    """The second node's clock is minutes ahead; whichever rank fails first is named, and it is no tie."""
    hosts = across(2)
    hosts.made.shift_clock(2, 200)
    failing = Failing(hosts, tmp_path, LD_PRELOAD="")  # the ranks have the real clock, to fail when told
    with hosts.command.start("--no-gui", "--trust", failing.file) as front:
        hosts.wait_begun(front)
        failing.wait_up()
        assert hosts.wait_event(1, "clock")["offset"] == pytest.approx(200, abs=5)
        failing.fail(*((0.0, APART) if first == 0 else (APART, 0.0)))
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 1, output
    hosts.wait_empty()
    told = failing.told()
    assert (told["rank"], told["code"], list(told["tied"])) == (first, 3 + first, [])
    assert f"rank {first} on node node{first + 1} failed first" in output


def _errors(hosts: HostsRun) -> list[float]:
    """By how much the second node's offset may be wrong, as the leader has said it."""
    return [event.fields["error"] for event in hosts.events(1, "clock")]
