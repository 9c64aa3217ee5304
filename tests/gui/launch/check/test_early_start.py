"""The window's start, as the command's: the controller of a run on nodes loads while the nodes are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.early_controllers import early_ones, wait_early, wait_no_early
from support.previews import preview
from torchdeck.config.loader import LoadedConfig, load_config
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.checked_plan import PreflightError
from torchdeck.launching.control.early_controller import EarlyController
from torchdeck.plan.check import failed
from torchdeck_app.bridge.operations import Cancel
from torchdeck_app.launch.check import calls
from torchdeck_app.launch.check.calls import Refused, Started, Starter, Wanted

PLAN = preview(1, 1).plan


def wanted(folder: Path, nodes: str) -> Wanted:
    (folder / "t.py").write_text("print(1)\n")
    file = folder / "run.toml"
    file.write_text(f'[run]\nscript = "t.py"\n[distributed]\nnodes = ["{nodes}"]\nnproc = 1\n')
    loaded: LoadedConfig = load_config(file)
    return Wanted(loaded, PLAN, "", "", folder)


def start(asked: Wanted, home: Path) -> object:
    home.mkdir(mode=0o700, exist_ok=True)
    return Starter(home).start(asked, lambda _what: None, Cancel())


def test_a_refusal_leaves_no_controller_behind(
    tmp_path: Path, torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[object] = []

    def refuses(*_asked: object) -> None:
        waited.append(wait_early(torchdeck_home))
        raise PreflightError([failed("ssh", "node1", "nobody answers", "switch it on")])

    monkeypatch.setattr(calls, "checked_plan", refuses)
    assert isinstance(start(wanted(tmp_path, "node1"), torchdeck_home), Refused)
    assert waited
    wait_no_early(torchdeck_home)


@pytest.mark.parametrize(("nodes", "is_early"), [("node1", True), ("localhost", False)])
def test_the_run_is_handed_to_it(
    tmp_path: Path, torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch, nodes: str, is_early: bool
) -> None:
    """On this machine alone there is nothing to wait for, and so none."""
    given: list[EarlyController | None] = []

    def begin(_plan: LaunchPlan, _intent: object, home: Path, **more: Any) -> tuple[RunLayout, None]:
        given.append(more["early"])
        return RunLayout(home / "runs" / "one"), None

    monkeypatch.setattr(calls, "checked_plan", lambda *_asked: (PLAN, []))
    monkeypatch.setattr(calls, "start_run", begin)
    assert start(wanted(tmp_path, nodes), torchdeck_home) == Started("one")
    assert [early is not None for early in given] == [is_early]
    wait_no_early(torchdeck_home)
    assert early_ones(torchdeck_home) == []
