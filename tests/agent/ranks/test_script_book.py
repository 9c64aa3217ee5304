"""What several layers report of one script is merged into one progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.agent.ranks.script_book import ScriptBook
from torchdeck.contract.metrics.script_state import Origin, read_script_state
from torchdeck.contract.run_states import RankPhase
from torchdeck.trainers.reading import Reading

STATE = ("file", "trainer_state.json")
BAR = ("stderr", "progress bar")


@pytest.fixture
def book(tmp_path: Path) -> ScriptBook:
    return ScriptBook(tmp_path / "script.json")


def test_the_most_trusted_layer_has_the_say(book: ScriptBook) -> None:
    """Total and loss are the state file's; the step is the bar's while that is further."""
    book.take(Reading(step=12, total=300), *BAR)
    book.take(Reading({"loss": 2.0}, step=10, total=300, epoch=0.1), *STATE)
    book.take(Reading({"loss": 2.1}, step=13, total=300), *BAR)
    state = book.state
    assert (state.step, state.total, state.epoch) == (13, 300, 0.1)
    assert state.origins["step"] == Origin(*BAR)
    assert state.origins["total"] == state.origins["loss"] == Origin(*STATE)


def test_a_bar_of_something_else_counts_for_nothing(book: ScriptBook) -> None:
    """An evaluation of 500 batches, or micro-batches, beside a training of 300 steps."""
    book.take(Reading(step=10, total=300), *STATE)
    book.take(Reading(step=40, total=500), *BAR)
    book.take(Reading(step=400), "stdout", "lines")
    assert (book.state.step, book.state.total) == (10, 300)


def test_counted_steps_never_override_what_the_program_says(book: ScriptBook) -> None:
    """Five steps of an optimizer may be one of the program's."""
    book.take(Reading(step=45), "counted", "counted optimizer steps")
    assert (book.state.step, book.state.origins["step"].layer) == (45, "counted")
    book.take(Reading(step=10), "stdout", "printed lines")
    book.take(Reading(step=50), "counted", "counted optimizer steps")
    assert (book.state.step, book.state.origins["step"].layer) == (10, "stdout")


def test_arguments_give_a_total_until_something_better_does(book: ScriptBook) -> None:
    """--max_steps 100 of a program whose own state says 90."""
    book.take(Reading(total=100), "arguments", "--max_steps")
    assert (book.state.step, book.state.total) == (None, 100)
    book.take(Reading(step=3, total=90), *STATE)
    assert (book.state.step, book.state.total) == (3, 90)


def test_the_rate_is_that_of_the_reported_times(book: ScriptBook) -> None:
    """Whenever the reports were read."""
    for step in range(0, 41, 10):
        book.take(Reading(step=step, time=1000.0 + step / 2), *STATE)
    assert book.state.rate == pytest.approx(2.0)
    assert book.state.time == 1020.0


def test_the_next_agent_continues(book: ScriptBook, tmp_path: Path) -> None:
    """With the same file; a phase that no one repeats stays."""
    book.take(Reading({"train/loss": 1.0}, step=5, total=9, time=7.0, phase=RankPhase.EVALUATING), *STATE)
    book.write()
    other = ScriptBook(tmp_path / "script.json")
    assert other.state == book.state == read_script_state(tmp_path / "script.json")
    other.take(Reading(step=6), *STATE)
    assert (other.state.step, other.state.total, other.state.phase) == (6, 9, RankPhase.EVALUATING)


def test_the_rate_after_a_resume_is_that_of_its_own_steps(book: ScriptBook) -> None:
    """Not of the jump from step 0, at which a callback begins."""
    book.take(Reading(step=0, time=1000.0), "inside", "Hugging Face Trainer")
    book.take(Reading(step=900, time=1005.0), "inside", "Hugging Face Trainer")
    assert book.state.rate is None
    book.take(Reading(step=905, time=1010.0), "inside", "Hugging Face Trainer")
    assert book.state.rate == pytest.approx(1.0)


def test_counted_steps_and_printed_ones_make_no_rate_together(book: ScriptBook) -> None:
    for step in range(1, 6):
        book.take(Reading(step=step, time=1000.0 + step), "counted", "counted optimizer steps")
    book.take(Reading(step=925, time=1006.0), "stdout", "printed lines")
    assert book.state.rate == pytest.approx(1.0), "of the counted ones"
    book.take(Reading(step=950, time=1031.0), "stdout", "printed lines")
    book.take(Reading(step=1000, time=1056.0), "stdout", "printed lines")
    assert book.state.rate == pytest.approx(1.5)
