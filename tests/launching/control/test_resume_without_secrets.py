"""A resume whose run lacks a secret is refused before anything is journaled."""

import dataclasses
from pathlib import Path

import pytest

from support.agents.agent_run import make_plan
from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.taking_over import LacksSecretsError, NotResumableError, resume
from torchdeck.use_cases.resume import SecretsWantedError
from torchdeck.use_cases.resume import resume as resumed
from torchdeck.use_cases.ui import QuietUi


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    plan = make_plan(["true"], tmp_path, kind="recipe")
    nodes = tuple(dataclasses.replace(node, secrets=("NOBODY_SET_THIS",)) for node in plan.nodes)
    over = finished("FAILED", resumable=True, checkpoint="c")
    leader = [agent_started(), started(), ended(outcome="failed"), over]
    document = dataclasses.replace(plan, nodes=nodes).document()
    return make_run(tmp_path / "home", controller_journal(), leader, plan=document)


def test_a_secret_without_a_value_is_named_and_no_session_begins(layout: RunLayout) -> None:
    with pytest.raises(NotResumableError, match=r"NOBODY_SET_THIS.*export NOBODY_SET_THIS") as refused:
        resume(layout, "test")
    assert refused.value.page == "start/script#secrets"
    assert "resumed" not in layout.journal.read_text()


@pytest.mark.processes  # the keyring is looked for
def test_a_front_end_learns_which_secrets_to_ask_for(layout: RunLayout) -> None:
    with pytest.raises(SecretsWantedError, match="NOBODY_SET_THIS") as wanted:
        resumed(layout, "test", QuietUi())
    assert wanted.value.missing.names == ("NOBODY_SET_THIS",)


def test_given_values_are_enough(layout: RunLayout) -> None:
    """What the run lacks besides is said then."""
    with pytest.raises(Refusal) as refused:
        resume(layout, "test", secrets={"NOBODY_SET_THIS": "x"}, arguments=["--no"])
    assert not isinstance(refused.value, LacksSecretsError)
    assert "takes no arguments" in str(refused.value)
    assert "resumed" not in layout.journal.read_text()
