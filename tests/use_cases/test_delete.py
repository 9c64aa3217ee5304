"""Deleting a run by way of the trash, as the window does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.histories import agent_started, controller_journal, ended, finished, started
from support.values.made_runs import make_run
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.registry import RunRegistry
from torchdeck.use_cases.delete import move_to_trash, restore

DONE = [agent_started(), started(), ended(), finished()]


def test_a_run_in_the_trash_is_restored(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    trashed = move_to_trash(layout)
    assert RunRegistry(tmp_path).ids() == []
    assert restore(trashed) == layout
    assert RunRegistry(tmp_path).ids() == [layout.root.name]


def test_what_the_system_refuses_is_a_refusal_with_its_reason(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE)
    (layout.trash(on_nodes=True) / "full").mkdir(parents=True)
    with pytest.raises(Refusal) as trashing:
        move_to_trash(layout)
    with pytest.raises(Refusal) as restoring:
        restore(layout.trash())
    assert (trashing.value.what, trashing.value.why) == (
        f"{layout.root} cannot be removed",
        "Directory not empty",
    )
    assert restoring.value.why == "No such file or directory"
