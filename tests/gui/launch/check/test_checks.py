"""Rows of checks, and what differs between two plans, by values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from torchdeck.config.loader import config_from_dict
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.prepare import cluster_facts, plan_from
from torchdeck.plan.check import PreflightError, failed, ok, warning
from torchdeck.plan.plan_changes import LIMIT, plan_changes
from torchdeck_app.launch.check.check_rows import Remedy, by_node, check_rows, refusal_rows, verdict
from torchdeck_app.launch.check.checks_panel import CheckPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import HelpLink


def test_what_stops_comes_first() -> None:
    checks = [
        ok("reach", "n", "reached"),
        warning("room", "n", "little", "more"),
        failed("home", "n", "full", "free"),
    ]
    rows = check_rows(checks, (Problem("training.lr", "", None, "wrong", "right"),))
    assert [row.name for row in rows] == ["training.lr", "home", "room", "reach"]
    assert rows[0].remedy is Remedy.GO_TO_KEY
    assert verdict(rows) == "2 problems block the launch"
    assert verdict(rows[2:]) == "Ready to launch, with 1 warning."
    assert verdict(rows[3:]) == "All checks passed. Ready to launch."


def test_the_window_says_what_can_be_done_in_it() -> None:
    """And not what the command line would want."""
    rows = check_rows(
        [failed("trust", "n", "not trusted", "--trust"), failed("devices", "n", "held", "--queue")]
    )
    assert [row.remedy for row in rows] == [Remedy.TRUST, Remedy.QUEUE]
    assert not any("--" in row.fix for row in rows)
    assert check_rows([warning("devices", "n", "held", "waits")])[0].remedy is None


def test_rows_stand_under_the_node_they_are_about() -> None:
    checks = [
        ok("home", "localhost", "writable"),
        ok("ssh", "a", "reached"),
        failed("ssh", "b", "no one answers", "look"),
        ok("clock", "a", "right"),
    ]
    found = by_node(check_rows(checks))
    assert {node: [row.name for row in rows] for node, rows in found.items()} == {
        "": ["home"],
        "b": ["ssh"],
        "a": ["ssh", "clock"],
    }
    assert list(found) == ["", "b", "a"], "this machine first, then the worst"


def test_the_panel_has_a_heading_for_each_node(theme: Theme, qtbot: QtBot) -> None:
    panel = CheckPanel(theme)
    qtbot.addWidget(panel)
    panel.show_rows(check_rows([ok("home", "localhost", "writable")]))
    assert not any("This machine" in text.text() for text in panel.findChildren(QLabel))
    panel.show_rows(check_rows([ok("home", "localhost", "fine"), failed("devices", "b", "held", "wait")]))
    said = [text.text() for text in panel.findChildren(QLabel)]
    assert "This machine  1 of 1 passed" in said
    assert "b  0 of 1 passed" in said
    assert panel.button(0).text() == "&Wait in the queue"


def make_plan(folder: Path, steps: int = 5, nproc: int = 2) -> LaunchPlan:
    table = {
        "run": {"script": "t.py"},
        "distributed": {"nproc": nproc, "devices": "cpu"},
        "launch": {"max_restarts": steps},
    }
    config = config_from_dict(table, folder)
    return plan_from(config, cluster_facts(config, environ={}))


def test_what_is_to_be_done_names_its_page(theme: Theme, qtbot: QtBot) -> None:
    """As a link; what is fine has none."""
    panel = CheckPanel(theme)
    qtbot.addWidget(panel)
    checks = [failed("memory", "localhost", "does not fit", "shard it"), ok("home", "localhost", "writable")]
    panel.show_rows(check_rows(checks, (Problem("training.lr", "", None, "wrong", "right"),)))
    pages = {link.page for link in panel.findChildren(HelpLink) if not link.isHidden()}
    assert pages == {"trouble/does-not-fit#make-it-fit", "reference/run-toml#training"}


def test_what_differs_between_plans(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print(1)\n")
    before = make_plan(tmp_path)
    assert plan_changes(before, make_plan(tmp_path)) == ()
    (tmp_path / "t.py").write_text("print(2)\n")
    (tmp_path / "new.py").write_text("")
    changes = plan_changes(before, make_plan(tmp_path))
    assert changes == ("new.py is new", "t.py was changed")
    other = plan_changes(before, make_plan(tmp_path, steps=7))
    assert any("max_restarts: 5 → 7" in sentence for sentence in other)
    many = replace(before, code=CodeTree({f"{number}.py": "" for number in range(30)}))
    assert len(plan_changes(before, many)) == LIMIT + 1
    assert "more" in plan_changes(before, many)[-1]


def test_a_refusal_is_shown_by_its_fields() -> None:
    """A colon in what the system says makes no remedy of it."""
    unwritable = Refusal("/a: b cannot be created", "Input/output error: sda", "save it elsewhere")
    (row,) = refusal_rows(unwritable)
    assert (row.what, row.fix) == ("/a: b cannot be created (Input/output error: sda)", "save it elsewhere")
    (row,) = refusal_rows(Refusal("/a: b cannot be inspected", "No such device"))
    assert (row.what, row.fix) == ("/a: b cannot be inspected (No such device)", "")


def test_each_reason_is_a_row() -> None:
    """Checks, problems of a run file, and several refusals."""
    stopped = PreflightError(
        [failed("ports", "b", "one: two", "three"), failed("home", "localhost", "x", "y")]
    )
    assert {(row.name, row.node, row.what, row.fix) for row in refusal_rows(stopped)} == {
        ("ports", "b", "one: two", "three"),
        ("home", "", "x", "y"),
    }
    (row,) = refusal_rows(ConfigError([Problem("training.lr", "", None, "wrong", "right")]))
    assert (row.key, row.what, row.fix, row.remedy) == ("training.lr", "wrong", "right", Remedy.GO_TO_KEY)
