"""`torchdeck runs delete` on runs made by hand."""

from __future__ import annotations

import json
import os
import pty
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.runs.conftest import FAILED, output_of
from support.system.free_port import free_port
from support.values.histories import (
    controller_journal,
    event,
)
from support.values.machines import config, node, plan
from support.values.made_runs import IDS, make_run
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.nodes.inventory.file import inventory_path


def test_delete_removes_a_run_that_is_over(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """And says which."""
    assert IDS[0] in output_of(capsys, "runs", "delete", "latest")
    assert not failed.root.exists()


@pytest.mark.parametrize(
    ("answer", "arguments", "deleted"),
    [("no\n", [], False), ("\n", [], False), ("yes\n", [], True), ("", ["--yes"], True)],
)
def test_delete_asks_on_a_terminal(
    failed: RunLayout,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    arguments: list[str],
    deleted: bool,
) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        os.write(ours, answer.encode())
        assert main(["runs", "delete", IDS[0], *arguments]) == (0 if deleted else 3)
    os.close(ours)
    assert failed.root.exists() is not deleted
    asked = f"Delete run gpt ({IDS[0]}, FAILED)" in capsys.readouterr().err
    assert asked is not bool(arguments)


def test_delete_refuses_a_run_that_lives(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, with the command that stops it."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    alive = event("agent_started", identity=me.to_json(), adopted=False)
    layout = make_run(torchdeck_home, controller_journal(), [alive])
    assert main(["runs", "delete", IDS[0]]) == 3
    assert "runs stop" in capsys.readouterr().err
    assert layout.plan.exists()


def test_delete_says_what_is_left_on_nodes_and_what_removes_it_later(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes here; a node that is not reached keeps what it has, and exit code 3 says so."""
    asked = config(distributed={"nodes": ["n1"]})
    there = replace(node("n1", cores=1), remote=True)
    layout = make_run(torchdeck_home, controller_journal(), FAILED, plan=plan(asked, there).document())
    node_inventory = f'[nodes.n1]\naddress = "127.0.0.1"\nport = {free_port()}\nuser = "nobody"\n'
    inventory_path(torchdeck_home).write_text(node_inventory)
    run_id = layout.root.name
    assert main(["runs", "delete", "gpt"]) == 3
    said = capsys.readouterr()
    assert f"deleted {run_id}" in said.out
    assert "node n1: not removed there: " in said.err
    assert not layout.root.exists()
    assert main(["runs", "delete", run_id, "--node", "n1", "n2", "--json"]) == 3
    value = json.loads(capsys.readouterr().out)
    assert [(each["node"], each["removed"]) for each in value["nodes"]] == [("n1", False), ("n2", False)]
    assert "node inventory" in value["nodes"][1]["why"]
    assert main(["runs", "delete", "gpt", "--node", "n1"]) == 2
    assert "whole id" in capsys.readouterr().err


def test_nodes_are_left_alone_where_that_is_asked(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that continues loses nothing on its nodes either."""
    asked = config(distributed={"nodes": ["n1"]})
    there = replace(node("n1", cores=1), remote=True)
    document = plan(asked, there).document()
    make_run(torchdeck_home, controller_journal(), FAILED, plan=document)
    assert output_of(capsys, "runs", "delete", "gpt", "--here").count("\n") == 1
    myself = ProcessIdentity.of(1)
    assert myself is not None
    alive = event("controller_started", identity=myself.to_json(), epoch=1)
    layout = make_run(torchdeck_home, [*controller_journal(), alive], run_id=IDS[1], plan=document)
    assert main(["runs", "delete", layout.root.name, "--node", "n1"]) == 3
    assert "stop it first" in capsys.readouterr().err
