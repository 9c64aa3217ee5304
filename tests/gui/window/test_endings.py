"""Which runs have ended, by values."""

import dataclasses

from support.values.run_entries import DONE, FAILED, entry, live_view, over_view, run_id
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_state import RunState
from torchdeck_app.widgets.state_badge import ENDED_WATCH, look_of_run
from torchdeck_app.window.run_news import Endings, ending_text

ENDED = over_view(run_id(1)).ended or 0.0
LATER, EARLIER = ENDED + 10.0, ENDED - 10.0


def live(number: int = 1) -> RunEntry:
    return entry(number, live_view(run_id(number)))


def over(number: int = 1, events: object = DONE) -> RunEntry:
    return entry(number, over_view(run_id(number), events))


def test_a_run_that_goes_on_and_then_is_over_is_told_once() -> None:
    endings = Endings(opened=LATER)
    assert endings.new_in([live()]) == []
    assert endings.new_in([over()]) == [over()]
    assert endings.new_in([over()]) == []


def test_what_had_ended_before_the_window_opened_is_not_told() -> None:
    endings = Endings(opened=LATER)
    assert endings.new_in([over(1), over(2)]) == []
    assert endings.new_in([over(1), over(2), live(3)]) == []


def test_a_run_that_came_and_went_between_two_looks_is_told_once() -> None:
    endings = Endings(opened=EARLIER)
    assert endings.new_in([]) == []
    assert [found.id for found in endings.new_in([over(2)])] == [run_id(2)]
    assert endings.new_in([over(2)]) == []


def test_a_resumed_run_is_told_again() -> None:
    endings = Endings(opened=LATER)
    for look, told in (([live()], 0), ([over()], 1), ([live()], 0), ([over()], 1)):
        assert len(endings.new_in(look)) == told


def test_a_run_that_cannot_be_read_for_a_while_is_still_told() -> None:
    endings = Endings(opened=LATER)
    endings.new_in([live()])
    assert endings.new_in([entry(1, None, why="damaged")]) == []
    assert len(endings.new_in([over()])) == 1


def test_a_watched_training_is_not_called_successful() -> None:
    """Only its parent process knows whether it failed."""
    watched = dataclasses.replace(over_view(run_id(1)), kind=WATCHED)
    assert ending_text(entry(1, watched)).endswith(" ended")
    assert look_of_run(watched) is ENDED_WATCH


def test_how_it_ended_is_said() -> None:
    assert ending_text(over()).endswith("succeeded")
    assert ending_text(over(1, FAILED)).endswith("failed: rank 1 failed")
    view = over_view(run_id(1), FAILED)
    long = dataclasses.replace(view, why="x" * 500 + "\nmore")
    assert len(ending_text(entry(1, long))) < 200
    stopped = dataclasses.replace(view, state=RunState.CANCELLED)
    assert ending_text(entry(1, stopped)).endswith("was stopped")
