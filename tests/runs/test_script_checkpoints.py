"""Checkpoints that a script wrote by itself, in the view of its run."""

from __future__ import annotations

from typing import Any

from support.values.histories import ALIVE, agent_started, controller_journal, event, fold, started
from torchdeck.contract.journal import Event
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.unsaved import lost_at_stop, what_is_lost
from torchdeck.runs.view import RunView


def saved(step: int | None, path: str, time: float, **fields: Any) -> Event:
    return event("checkpoint", time, step=step, path=path, size=10, kind="hf", changed=time, **fields)


def viewed(*events: Event, kind: str = "script") -> RunView:
    created, *others = controller_journal()
    created = Event(created.name, created.time, created.monotonic, {**created.fields, "kind": kind})
    node = [agent_started(), started(), *events]
    return fold("r", [created, *others], {"localhost": node}, {}, ALIVE, 103.0)


def progress(step: int) -> TrainingProgress:
    return TrainingProgress("training", step, None)


def test_the_newest_that_was_not_deleted_is_the_runs() -> None:
    first, second = saved(10, "/o/checkpoint-10", 102.0), saved(20, "/o/checkpoint-20", 102.5)
    newest = viewed(first, second).checkpoint
    assert newest is not None
    assert (newest.step, newest.kind) == (20, "hf")
    gone = event("checkpoint_gone", 102.6, path="/o/checkpoint-20")
    left = viewed(first, second, gone).checkpoint
    assert left is not None
    assert left.step == 10
    other = event("checkpoint_gone", 102.6, path="/o/checkpoint-10")
    assert viewed(first, second, other).checkpoint == newest


def test_json_of_a_recipes_checkpoint_has_no_further_keys() -> None:
    ours = event("checkpoint", 102.5, step=4, path="/c/step_00000004", seconds=0.5, size=3)
    assert not {"kind", "about"} & viewed(ours).to_json()["checkpoint"].keys()
    assert viewed(saved(1, "/o/checkpoint-1", 102.0)).to_json()["checkpoint"]["kind"] == "hf"


def test_a_stop_tells_how_many_steps_a_script_may_lose() -> None:
    view = viewed(saved(100, "/o/ckpt.pt", 102.0, about=True))
    assert what_is_lost(view, progress(132)) == "32 steps since the checkpoint of about step 100 are lost"
    told = lost_at_stop(view, progress(132))
    assert told.startswith("Unless the program saves when it is stopped, 32 steps since the checkpoint")
    assert lost_at_stop(viewed(kind="recipe"), progress(132)) == ""
    nameless = viewed(saved(None, "/o/ckpt.pt", 102.0))
    assert what_is_lost(nameless, progress(5)) == "what came after the checkpoint ckpt.pt is lost"
