"""One limit for all of a look at a node: who answers SSH and hangs then is not waited for three times."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from support.hosts import TestHosts
from support.piped_process import piped_process
from torchdeck.launch.reach import Reach
from torchdeck.nodes.book.file import book_path
from torchdeck.nodes.book.schema import NodeEntry
from torchdeck.nodes.probe.conversation import Conversation
from torchdeck.nodes.probe.probing import Connect, Question, probe_node
from torchdeck.nodes.ssh.connection import Connection

HANGS = ["/bin/sh", "-c", "exec sleep 600"]


class Short(Question):
    """One that is asked for three seconds."""

    limit = 3.0


def unreachable(name: str, limit: float) -> Connection:
    raise AssertionError((name, limit))


@pytest.mark.parametrize(("spent", "least", "most"), [(2.6, 0.3, 2.0), (0.0, 2.9, 5.0), (9.0, 0.0, 2.0)])
def test_an_answer_is_waited_for_as_long_as_is_left(spent: float, least: float, most: float) -> None:
    """What connecting has taken is not there for the answer any more."""

    @contextmanager
    def talking(name: str, _entry: NodeEntry, _connect: Connect, limit: float) -> Iterator[Conversation]:
        assert limit == Short.limit
        with piped_process(HANGS) as process:
            yield Conversation(process, f"node {name}", spent)

    begun = time.monotonic()
    found = probe_node("n1", NodeEntry(address="10.0.0.1"), unreachable, Short(), talking)
    assert least <= time.monotonic() - begun < most
    assert "node n1 did not answer 'facts'" in found.error


def test_a_node_whose_python_hangs_is_given_up_in_time(
    hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path
) -> None:
    """A real host lets in slowly, as it says itself, and its Python never answers."""
    made = hosts(1)
    made.trust(torchdeck_home)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    given: dict[str, Any] = {**made.entry(1), "python": str(python)}
    entry = NodeEntry.model_validate(given)
    reach = Reach(torchdeck_home)

    def connect(name: str, limit: float) -> Connection:
        connection = reach.connect(name, limit)
        assert 0.0 < connection.seconds < limit
        connection.seconds = 2.0
        return connection

    book_path(torchdeck_home).write_text(tomlkit.dumps({"version": 1, "nodes": {"n1": given}}))
    found = probe_node("n1", entry, connect, Short())
    assert "did not answer" in found.error
    assert found.seconds < 1.0 + 3.0  # what is left of the limit, and the login itself
