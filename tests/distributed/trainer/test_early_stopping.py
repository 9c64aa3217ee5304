"""When validation loss no longer gets better."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.distributed.trainer.stopping import EarlyStopping


def told(stopping: EarlyStopping, *losses: float) -> str:
    for step, loss in enumerate(losses, 1):
        stopping.evaluated(step, loss)
    return stopping.reason


def test_it_names_the_best_and_how_long_ago_it_was() -> None:
    """Patience counts evaluations in a row; one that is better starts again."""
    stopping = EarlyStopping(2)
    assert told(stopping, 3.0, 2.0, 2.5, 1.0, 1.5) == ""
    stopping.evaluated(6, 1.0)
    assert stopping.reason == (
        "validation_loss has not been lower than 1, of step 4, for 2 evaluations in a row"
    )


@pytest.mark.parametrize(("loss", "ends"), [(0.91, True), (0.9, True), (0.89, False)])
def test_better_is_better_by_min_delta(loss: float, ends: bool) -> None:
    """What is lower by no more than min_delta is no better."""
    reason = told(EarlyStopping(1, 0.1), 1.0, loss)
    assert bool(reason) is ends
    if ends:
        sentence = (
            "validation_loss has not been lower than 1, of step 1, by more than 0.1 for 1 evaluation in a row"
        )
        assert reason == sentence


def test_without_patience_it_never_ends() -> None:
    """But what it counted is there for a training that continues with one."""
    stopping = EarlyStopping(None)
    assert told(stopping, 1.0, 2.0, 3.0) == ""
    later = EarlyStopping(2)
    later.load_state_dict(stopping.state_dict())
    assert later.reason


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20), st.integers(0, 20), st.integers(1, 4))
def test_resuming_anywhere_changes_nothing(losses: list[float], cut: int, patience: int) -> None:
    """Through a checkpoint's JSON after any evaluation."""
    whole, first = EarlyStopping(patience), EarlyStopping(patience)
    told(whole, *losses)
    told(first, *losses[:cut])
    second = EarlyStopping(patience)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step, loss in enumerate(losses[cut:], cut + 1):
        second.evaluated(step, loss)
    assert second.reason == whole.reason
