"""Stacks of runs that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.histories import agent_started, created, event, started
from support.values.made_runs import make_run
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.ranks.stacks import ask_for_stacks
from torchdeck.use_cases.ui import QuietUi


def test_a_training_that_is_only_watched_is_not_asked(tmp_path: Path) -> None:
    first = created()
    kind = event("created", first.time, **{**first.fields, "kind": WATCHED})
    layout = make_run(tmp_path, [kind], [agent_started(), started()])
    with pytest.raises(Refusal, match="is only watched, so its stacks cannot be shown"):
        ask_for_stacks(layout, "terminal", QuietUi())
    assert list(layout.node("localhost").inbox.iterdir()) == []
