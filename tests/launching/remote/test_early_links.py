"""Links that are begun before there is a run, over real sshd: taken, changed meanwhile, never wanted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import tomlkit

from support.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.remote.early_link import EarlyLink
from torchdeck.launching.remote.early_links import EarlyLinks
from torchdeck.launching.remote.link import LinkTarget, NodeLink
from torchdeck.launching.remote.node_dial import dial_of
from torchdeck.launching.runtime_bundle import ship
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.runs.links import UP

LIMIT = 30.0
OURS = (b"# Torchdeck: the link", b"torchdeck link")


@pytest.fixture
def made(hosts: Callable[..., TestHosts], torchdeck_home: Path) -> TestHosts:
    """Two hosts, `n1` and `n2` of the node inventory."""
    found = hosts(2)
    found.trust(torchdeck_home)
    node_inventory = {"version": 1, "nodes": {f"n{host}": found.entry(host) for host in (1, 2)}}
    inventory_path(torchdeck_home).write_text(tomlkit.dumps(node_inventory))
    return found


@pytest.fixture
def early(made: TestHosts, torchdeck_home: Path) -> Iterator[EarlyLinks]:
    links = EarlyLinks(torchdeck_home)
    yield links
    links.close()


def waiting(made: TestHosts, host: int) -> Sequence[int]:
    """Processes of a host that wait for the order of a link, or have it."""
    found = []
    for pid in made.pids(host):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(OURS) for word in words):
            found.append(pid)
    return found


def link_over(early: EarlyLink | None, home: Path, dials: list[float]) -> NodeLink:
    """A link to `n1` that notes when it has to dial by itself."""
    reach = Connector(home)
    layout = RunLayout(home / "runs" / "20261121T034455Z-early-1f09ab")
    layout.root.mkdir(parents=True)
    entry = reach.node_inventory().nodes["n1"]
    dial = dial_of(reach, "n1", entry)

    def noted(limit: float):  # type: ignore[no-untyped-def]
        dials.append(limit)
        return dial(limit)

    return NodeLink(LinkTarget(layout, "n1", entry.home or "", ship(home)), noted, early)


def test_what_was_begun_is_the_link(early: EarlyLinks, made: TestHosts, torchdeck_home: Path) -> None:
    """One login: the Python that waited is the link's end, and the second time it dials as always."""
    early.begin("n1")
    early.begin("n1")
    (there,) = wait_until(lambda: waiting(made, 1), LIMIT, "the node's Python")
    entry = Connector(torchdeck_home).node_inventory().nodes["n1"]
    dials: list[float] = []
    link = link_over(early.take("n1", entry), torchdeck_home, dials)
    try:
        link.start()
        assert link.wait_up(LIMIT)
        assert waiting(made, 1) == [there]
        assert not dials
        os.kill(there, signal.SIGKILL)
        wait_until(lambda: len(dials) == 1 and link.state.state == UP, LIMIT, "another connection")
    finally:
        link.close()


def test_what_nobody_takes_ends_on_the_node(early: EarlyLinks, made: TestHosts) -> None:
    """A range took other nodes, or the launch was refused."""
    for node in ("n1", "n2"):
        early.begin(node)
    for host in (1, 2):
        wait_until(lambda host=host: waiting(made, host), LIMIT, f"the Python of n{host}")  # type: ignore[misc]
    early.close()
    for host in (1, 2):
        wait_until(lambda host=host: not waiting(made, host), LIMIT, f"n{host} to be left")  # type: ignore[misc]


def test_another_way_to_a_node_is_not_the_one_that_was_begun(
    early: EarlyLinks, made: TestHosts, torchdeck_home: Path
) -> None:
    """The book was edited meanwhile; and who is no node, or has no book, is nobody's concern here."""
    early.begin("n1")
    wait_until(lambda: waiting(made, 1), LIMIT, "the node's Python")
    entry = Connector(torchdeck_home).node_inventory().nodes["n1"].model_copy(update={"home": "~/elsewhere"})
    assert early.take("n1", entry) is None
    wait_until(lambda: not waiting(made, 1), LIMIT, "n1 to be left")
    early.begin("nobody")
    inventory_path(torchdeck_home).write_text("no = book")
    early.begin("n2")
    assert early.take("n2", entry) is None


def test_one_that_comes_to_nothing_is_begun_anew(
    early: EarlyLinks, made: TestHosts, torchdeck_home: Path
) -> None:
    """The node's Python was ended while it waited: the link is up all the same."""
    early.begin("n1")
    (there,) = wait_until(lambda: waiting(made, 1), LIMIT, "the node's Python")
    os.kill(there, signal.SIGKILL)
    dials: list[float] = []
    taken = early.take("n1", Connector(torchdeck_home).node_inventory().nodes["n1"])
    link = link_over(taken, torchdeck_home, dials)
    try:
        link.start()
        assert link.wait_up(LIMIT)
        assert len(dials) == 1
    finally:
        link.close()


def test_part_of_another_version_is_not_used(
    early: EarlyLinks, made: TestHosts, torchdeck_home: Path
) -> None:
    early.begin("n1")
    wait_until(lambda: waiting(made, 1), LIMIT, "the node's Python")
    taken = early.take("n1", Connector(torchdeck_home).node_inventory().nodes["n1"])
    assert taken is not None
    assert taken.take(torchdeck_home / "shipped" / "0123456789abcdef", LIMIT) is None
    wait_until(lambda: not waiting(made, 1), LIMIT, "n1 to be left")
