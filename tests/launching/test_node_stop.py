"""Stopping a run by asking its nodes: Pythons of this machine stand in for theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.values.made_runs import IDS
from torchdeck.agent.inbox import Inbox
from torchdeck.agent.probe.answer import stop_run
from torchdeck.contract.layout import RunLayout
from torchdeck.launching import node_stop
from torchdeck.launching.node_stop import stop_on_nodes
from torchdeck.launching.requests import STOP_NOW, Request
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeSession
from torchdeck.nodes.ssh.errors import UnreachableError

RUN = f"{IDS[0][:-6]}{os.getpid() % 2**24:06x}"
"""Processes of it live, which other tests' runs of one id must not have."""
REQUEST = Request("17-stop_now-ab", STOP_NOW, "terminal")


@contextmanager
def talking(name: str, *_arguments: Any) -> Iterator[ProbeSession]:
    if name == "away":
        raise UnreachableError("away", "10.0.0.9 does not answer")
    with probe_session_here(name, sys.executable) as probe_session:
        yield probe_session


@pytest.fixture
def connector(tmp_path: Path) -> Connector:
    home = tmp_path / "mine"
    home.mkdir(mode=0o700)
    entries = (
        f'[nodes.{name}]\naddress = "10.0.0.1"\nhome = "{tmp_path / name}"\n' for name in ("n1", "away")
    )
    inventory_path(home).write_text("\n".join(entries))
    return Connector(home, talking=talking)


@contextmanager
def living(layout: RunLayout) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the run, which ends when its agent's inbox has a request."""
    inbox = layout.node("n1").inbox
    wait = f"until ls {inbox} 2>/dev/null | grep -q json; do sleep 0.05; done"
    layout.root.mkdir(parents=True)
    process = subprocess.Popen(["sh", "-c", wait], env={**os.environ, "TORCHDECK_RUN_ID": RUN})
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.processes
def test_a_run_is_asked_to_stop_and_waited_for(connector: Connector, tmp_path: Path) -> None:
    layout, said = RunLayout(tmp_path / "n1" / "runs" / RUN), list[str]()
    with living(layout) as process:
        (stop,) = stop_on_nodes(RUN, ["n1"], REQUEST, connector, 30.0, said.append)
        assert process.wait(10) == 0
    assert (stop.lived, stop.why) == (True, "")
    assert said in ([], ["node n1: waiting for the run to end there"])
    (taken,) = Inbox(layout.node("n1").inbox, frozenset()).read_new()
    assert (taken.id, taken.kind) == (REQUEST.id, STOP_NOW)


@pytest.mark.processes
def test_what_does_not_live_gets_no_request(connector: Connector, tmp_path: Path) -> None:
    """It would stop the next session of the run."""
    layout = RunLayout(tmp_path / "n1" / "runs" / RUN)
    layout.root.mkdir(parents=True)
    (stop,) = stop_on_nodes(RUN, ["n1"], REQUEST, connector, 30.0)
    assert (stop.lived, stop.why) == (False, "")
    assert not layout.node("n1").inbox.exists()


def test_a_node_that_is_not_in_the_node_inventory_is_not_waited_for(connector: Connector) -> None:
    (stop,) = stop_on_nodes(RUN, ["gone"], REQUEST, connector, 30.0)
    assert stop.unreached
    assert "gone" in stop.why


def test_a_node_that_does_not_answer_is_waited_for_so_long_and_no_longer(
    connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_stop, "UNREACHED_LIMIT", 1.0)
    said = list[str]()
    begun = time.monotonic()
    (stop,) = stop_on_nodes(RUN, ["away"], REQUEST, connector, 30.0, said.append)
    assert time.monotonic() - begun > 1.0
    assert (stop.unreached, stop.why) == (True, "node away: 10.0.0.9 does not answer")
    assert said == ["node away could not be reached within 1 s: node away: 10.0.0.9 does not answer"]


WRONG = ({"run_id": ".."}, {"node": "../x"}, {"node": ".."}, {"request": "../1.json"})


@pytest.mark.parametrize("wrong", WRONG)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is no"):
        stop_run(tmp_path, {"run_id": RUN, "node": "n1", "request": REQUEST.file_name, **wrong})
