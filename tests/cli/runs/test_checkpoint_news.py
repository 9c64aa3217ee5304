"""Which checkpoints a terminal that watches a run reports as saved."""

from __future__ import annotations

from support.values.histories import (
    ALIVE,
    controller_journal,
    ended,
    event,
    finished,
    fold,
    running_run,
    started,
)
from torchdeck.cli.runs.watch import is_news
from torchdeck.contract.journal import Event
from torchdeck.runs.view import RunView

SAVED = event("checkpoint", 103.0, step=40, path="/c/step_00000040", seconds=0.1, size=1)
STOPPED = [*running_run(), SAVED, ended(1, "stopped"), finished("CANCELLED", resumable=True)]
RESUMED = event("resumed", 160.0, finished=1)
AGAIN = [event("agent_started", 161.0, adopted=False, life=1), started(2, 162.0)]


def seen(node: list[Event], *journal: Event) -> RunView:
    return fold("r", [*controller_journal(), *journal], {"localhost": node}, {}, ALIVE, 163.0)


def news(view: RunView, before: RunView | None) -> bool:
    assert view.checkpoint is not None
    return is_news(view.checkpoint, view, before)


def test_a_checkpoint_from_before_a_resume_is_no_news() -> None:
    """Neither before the new attempt starts nor when it runs."""
    waiting, going = seen(STOPPED, RESUMED), seen([*STOPPED, *AGAIN], RESUMED)
    assert not news(waiting, None)
    assert not news(going, None)
    assert not news(going, waiting)


def test_each_checkpoint_of_the_attempt_is_news_once() -> None:
    going = seen([*STOPPED, *AGAIN], RESUMED)
    newer = event("checkpoint", 162.5, step=50, path="/c/step_00000050", seconds=0.1, size=1)
    saved = seen([*STOPPED, *AGAIN, newer], RESUMED)
    assert news(saved, going)
    assert not news(saved, saved)
    assert news(saved, None)


def test_one_step_under_two_names_is_news_once() -> None:
    """Lightning saves the newest as last.ckpt, too."""
    named, last = (
        event("checkpoint", 102.5, step=64, path=f"/c/{name}", size=1, kind="lightning")
        for name in ("epoch=1-step=64.ckpt", "last.ckpt")
    )
    first, second = seen([*running_run(), named]), seen([*running_run(), named, last])
    assert news(first, seen(running_run()))
    assert not news(second, first)
