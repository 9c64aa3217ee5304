"""Hangs on three hosts: a rank and its host, the network between two of them, a host without a network."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomlkit

from support.doctor.cases import SEED
from support.doctor.fault_rows import Row, record, told
from support.doctor.faults import FAULTS, Fault, lines
from support.doctor.programs import Place, program
from support.hosts.hosts_run import HostsRun
from support.waiting import wait_until
from torchdeck.agent.doctor.evidence import Kind
from torchdeck.contract.journal import Event

pytestmark = [pytest.mark.doctor, pytest.mark.timeout(300)]
AcrossOf = Callable[..., HostsRun]
NODES = ["node1", "node2", "node3"]
HANG_AFTER = 4
LIMIT = 90
NOTHING = Fault("nothing", "pass", Kind.WORKING)


@dataclass(frozen=True)
class Broken:
    """One fault on three hosts with a rank each.

    Args:
        fault: what rank 2 does; of a fault of the network nothing.
        name: the fault's name in the table.
        kind: class that is expected.
        rank: rank that is expected; None: any.
        breaks: what happens to the hosts.
        says: part of the sentence.
    """

    fault: Fault
    name: str
    kind: Kind
    rank: int | None
    breaks: Callable[[HostsRun], None] | None
    says: str


def cut_between_two(hosts: HostsRun) -> None:
    """Nothing that node3 sends comes to node2: their ranks' connections hang, no agent's link does."""
    hosts.made.block_port(2, "1-65535", sender=hosts.made.address(3))


def unplug_the_third(hosts: HostsRun) -> None:
    hosts.made.cut(3)


BROKEN = (
    Broken(FAULTS[0], "sleeps", Kind.ELSEWHERE, 2, None, "Rank 2 on node3 is in"),
    Broken(NOTHING, "cut-between-two-hosts", Kind.COLLECTIVE, None, cut_between_two, "All 3 ranks wait"),
    Broken(
        NOTHING,
        "host-without-network",
        Kind.MACHINE,
        2,
        unplug_the_third,
        "Rank 2 on node3 is on a",
    ),
)
SAMPLE = random.Random(SEED).choice(BROKEN).name  # noqa: S311 - the same one every time


@pytest.mark.parametrize(
    "broken",
    [pytest.param(b, id=b.name, marks=[] if b.name == SAMPLE else [pytest.mark.soak]) for b in BROKEN],
)
def test_a_hang_on_three_hosts_is_explained(broken: Broken, across: AcrossOf, tmp_path: Path) -> None:
    hosts = across(3)
    began = tmp_path / "began"
    text = program("prints", broken.fault, Place(str(began)), culprit=2, ranks=3)
    with hosts.command.start("--no-gui", "--trust", write(tmp_path / "work", text)) as front:
        hosts.wait_begun(front)
        wait_until(began.exists, LIMIT, "the step of the fault")
        if broken.breaks is not None:
            began.write_text(str(time.time()))
            broken.breaks(hosts)
        event = first_hang(hosts)
        assert event is not None or broken.name != SAMPLE
        expected = tuple(f"train.py:{line} fault" for line in lines(text))
        row = Row(
            *(broken.name, "three hosts", 3, str(broken.kind), broken.rank, expected),
            seconds=None if event is None else round(event.time - float(began.read_text()), 2),
            **({} if event is None else told(event.fields, expected)),
        )
        record(row, strict=broken.name == SAMPLE)
        assert broken.says in row.sentence or not row.right, row
        hosts.made.heal(3)
        hosts.command.run("runs", "stop", "latest", "--now")
    hosts.wait_empty(60)


def first_hang(hosts: HostsRun) -> Event | None:
    """The leader's first verdict; None if there is none in time."""
    with suppress(AssertionError):
        hosts.wait_event(1, "hang", LIMIT)
    return next(iter(hosts.events(1, "hang")), None)


def write(folder: Path, text: str) -> Path:
    """The script, and its run file for one rank on each host."""
    folder.mkdir()
    (folder / "train.py").write_text(text)
    config = {
        "run": {"script": "train.py"},
        "distributed": {"nodes": NODES, "nproc": 1, "devices": "cpu"},
        "launch": {"hang_after": HANG_AFTER},
        "limits": {"min_free_disk": "1MiB"},
    }
    (folder / "run.toml").write_text(tomlkit.dumps(config))
    return folder / "run.toml"
