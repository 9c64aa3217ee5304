"""One limit for all of a look at a node: who answers SSH and hangs then is not waited for three times."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from support.hosts.hosts import TestHosts
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.probe.probing import Connect, Question, probe_node
from torchdeck.nodes.ssh.connection import Connection


class Short(Question):
    """One that is asked for ten seconds."""

    limit = 10.0


class Hanging:
    """A Python that says nothing, for as long as it is waited for."""

    stderr = b""

    def __init__(self) -> None:
        self.waited = 0.0

    def write(self, data: bytes) -> None:
        pass

    def read(self, _size: int, limit: float) -> bytes:
        self.waited += limit
        raise TimeoutError

    def close(self) -> None:
        pass


def unreachable(name: str, limit: float) -> Connection:
    raise AssertionError((name, limit))


@pytest.mark.parametrize(("spent", "least", "most"), [(6.0, 2.0, 4.0), (0.0, 8.0, 10.0), (30.0, 0.0, 0.0)])
def test_an_answer_is_waited_for_as_long_as_is_left(spent: float, least: float, most: float) -> None:
    """What connecting has taken is not there for the answer any more."""

    @contextmanager
    def talking(name: str, _entry: NodeEntry, _connect: Connect, limit: float) -> Iterator[ProbeSession]:
        assert limit == Short.limit
        yield ProbeSession(process, f"node {name}", spent)

    process = Hanging()
    found = probe_node("n1", NodeEntry(address="10.0.0.1"), unreachable, Short(), talking)
    assert least <= process.waited <= most
    assert "node n1 did not answer 'facts'" in found.error


def test_a_node_whose_python_hangs_is_given_up_in_time(
    hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path
) -> None:
    """A real host lets in slowly, as it says itself, and its Python never answers: it gets the time left."""
    made = hosts(1)
    made.trust(torchdeck_home)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    given: dict[str, Any] = {**made.entry(1), "python": str(python)}
    entry = NodeEntry.model_validate(given)
    connector = Connector(torchdeck_home)

    def connect(name: str, limit: float) -> Connection:
        connection = connector.connect(name, limit)
        assert connection.seconds > 0.0
        connection.seconds = Short.limit - 1.0
        return connection

    inventory_path(torchdeck_home).write_text(tomlkit.dumps({"version": 1, "nodes": {"n1": given}}))
    found = probe_node("n1", entry, connect, Short())
    assert re.search(r"did not answer 'facts' within (0|0\.\d|1) s", found.error), found.error
