"""A resume whose run lacks a secret is refused before anything is journaled."""

import dataclasses
from pathlib import Path

import pytest

from support.agents.agent_run import make_plan
from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import make_run
from torchdeck.launching.taking_over import NotResumableError, resume


def test_a_secret_without_a_value_is_named_and_no_session_begins(tmp_path: Path) -> None:
    plan = make_plan(["true"], tmp_path, kind="recipe")
    nodes = tuple(dataclasses.replace(node, secrets=("NOBODY_SET_THIS",)) for node in plan.nodes)
    over = finished("FAILED", resumable=True, checkpoint="c")
    leader = [agent_started(), started(), ended(outcome="failed"), over]
    document = dataclasses.replace(plan, nodes=nodes).document()
    layout = make_run(tmp_path / "home", controller_journal(), leader, plan=document)
    with pytest.raises(NotResumableError, match=r"NOBODY_SET_THIS.*export NOBODY_SET_THIS") as refused:
        resume(layout, "test")
    assert refused.value.page == "start/script#secrets"
    assert "resumed" not in layout.journal.read_text()
