"""Secrets reach the ranks of a local run, and nothing else of it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
from pathlib import Path

import pytest

from support.agents.agent_run import NODE, make_plan, script
from support.agents.controlled_run import controllers, new_run, wait_for_state, wait_until_over
from support.waiting import wait_until
from torchdeck.contract.atomic import read_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.run_secrets import MissingSecretError
from torchdeck.launching.launcher import LaunchError, start_controller
from torchdeck.use_cases.api import Run

pytestmark = pytest.mark.processes

SHOWS_HASH = """
import hashlib, os, time
from pathlib import Path
print(hashlib.sha256(os.environ["THE_KEY"].encode()).hexdigest(), flush=True)
while not Path("go").exists():
    time.sleep(0.02)
"""


def with_secret(plan: LaunchPlan) -> LaunchPlan:
    nodes = tuple(dataclasses.replace(node, secrets=("THE_KEY",)) for node in plan.nodes)
    return dataclasses.replace(plan, nodes=nodes)


def supervisors(layout: RunLayout) -> list[ProcessIdentity]:
    """The living controller, agent and shim."""
    content = read_json(layout.attempt(1).node(NODE).holder)
    named = [content.get("holder"), read_json(layout.node(NODE).lock)]
    found = [ProcessIdentity.from_json(value) for value in named]
    return [*controllers(layout), *(process for process in found if process is not None)]


def test_a_canary_is_in_the_ranks_environment_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of the home, command line, or environment of controller, agent or shim has it; not after
    the agent was killed either, though the next one has it for the ranks of a restart."""
    canary = "canary-" + os.urandom(8).hex()
    monkeypatch.setenv("THE_KEY", canary)
    layout = new_run(with_secret(make_plan(script(tmp_path, SHOWS_HASH), tmp_path)))
    run = Run(layout, start_controller(layout))
    wait_for_state(layout, "RUNNING")
    agent = ProcessIdentity.from_json(read_json(layout.node(NODE).lock))
    assert agent is not None
    agent.send(signal.SIGKILL)
    before = (None, agent)  # the file is empty for a moment
    wait_until(
        lambda: ProcessIdentity.from_json(read_json(layout.node(NODE).lock)) not in before,
        15,
        "another agent",
    )
    found = supervisors(layout)
    assert len(found) == 3
    for process in found:
        assert canary.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
        assert canary.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    (tmp_path / "go").touch()
    assert run.wait(30).state == "SUCCEEDED"
    assert hashlib.sha256(canary.encode()).hexdigest() in layout.attempt(1).rank(0).stdout.read_text()
    # what still runs replaces files while they are read here
    wait_until(lambda: not any(process.is_alive() for process in found), 20, "everything to end")
    for path in home.rglob("*"):
        assert not path.is_file() or canary.encode() not in path.read_bytes(), path


def test_a_secret_that_is_not_set_is_named_before_anything_is_made(home: Path, tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(LaunchError, match=r"names THE_KEY.*export THE_KEY"):
        new_run(with_secret(make_plan(script(tmp_path, "print('never')"), tmp_path)))
    assert not list(home.rglob("journal.jsonl"))


def test_who_looks_at_a_run_later_needs_no_secret(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agents have it: another controller can be started from a shell without it."""
    monkeypatch.setenv("THE_KEY", "value")
    layout = new_run(with_secret(make_plan(script(tmp_path, SHOWS_HASH), tmp_path)))
    start_controller(layout)
    wait_for_state(layout, "RUNNING")
    monkeypatch.delenv("THE_KEY")
    start_controller(layout, first=False)
    (tmp_path / "go").touch()
    assert wait_until_over(layout).state == "SUCCEEDED"


def test_all_variables_that_are_not_set_are_named_with_their_fix() -> None:
    error = MissingSecretError(["A", "B"])
    assert (error.what, error.fix) == (
        "run.secrets names A, B, but these variables are not set here",
        "export A B, then start again",
    )
    assert "this variable is not set" in MissingSecretError(["A"]).what
