"""State of a sweep by its events, and what its driver does next."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.cli.sweep.trial_table import trial_table
from torchdeck.contract.atomic import write_json
from torchdeck.contract.journal import Event, JournalWriter
from torchdeck.sweeps.decisions import (
    HOPELESS,
    RunKey,
    Start,
    has_work,
    is_hopeless,
    next_continued,
    next_start,
    rungs_to_note,
    runs_to_prune,
)
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.strategies import Strategy
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_request import SweepFileError, SweepRequest, read_request, write_request
from torchdeck.sweeps.sweep_state import (
    BEGUN,
    CONTINUED,
    ENDED,
    EXTENDED,
    INFEASIBLE,
    JUDGED,
    PRUNING,
    RESUMED,
    STARTED,
    STOP,
    VARIED,
    SweepFollower,
    SweepHistory,
    SweepState,
    plain_number,
)
from torchdeck.sweeps.sweep_text import best_sentence, counts_sentence, run_sentence, sweep_json
from torchdeck.sweeps.swept_file import SweptFile
from torchdeck.sweeps.trials import Outcome

ID = "20261129T033707Z-toy-66b0f3"


def request(**changes: Any) -> SweepRequest:
    values: dict[str, Any] = {
        "file": SweptFile("[run]\n", Path("/x/toy.toml"), is_file=True, overrides=("a=1",)),
        "over": ("lr=1,2,3",),
        "strategy": Strategy.GRID,
        "trials": 3,
        "goal": Goal("loss"),
    }
    return SweepRequest(**(values | changes))


class Story:
    """A sweep whose events are written by hand."""

    def __init__(self, **changes: Any) -> None:
        self.history = SweepHistory(ID, request(**changes))

    @property
    def state(self) -> SweepState:
        return self.history.state

    def event(self, name: str, trial: int, seed: int = 0, /, **fields: Any) -> None:
        self.history.driver_event(Event(name, 1.0, 1.0, {"trial": trial, "seed": seed, **fields}))

    def change(self, name: str, /, **fields: Any) -> None:
        self.history.change(Event(name, 1.0, 1.0, fields))

    def begin(self) -> Start:
        """The next run, begun and started."""
        start = next_start(self.state)
        assert start is not None
        self.event(BEGUN, start.trial, start.seed, name=f"n{start.trial}", point=dict(start.point))
        self.event(STARTED, start.trial, start.seed, run=f"r{start.trial}.{start.seed}")
        return start

    def end(
        self, trial: int, value: float | None, seed: int = 0, outcome: Outcome = Outcome.COMPLETE
    ) -> None:
        history = [] if value is None else [[10, plain_number(value)]]
        steps = len(history) * 10
        self.event(
            ENDED, trial, seed, outcome=str(outcome), value=plain_number(value), steps=steps, history=history
        )


def test_a_sweep_from_its_first_trial_to_its_last() -> None:
    story = Story()
    for number, value in ((1, 5.0), (2, 3.0), (3, math.nan)):
        assert story.begin() == Start(number, 0, {"lr": number})
        assert [run.id for _, run in story.state.active] == [f"r{number}.0"]
        story.end(number, value)
    state = story.state
    assert next_start(state) is None
    assert state.best is not None
    assert state.best.number == 2
    assert [each.best for each in state.best_so_far] == [5.0, 3.0, 3.0]
    assert state.steps == 30
    assert counts_sentence(state) == "3 of 3 trials: 3 complete"
    assert best_sentence(state) == "best: trial 2, loss 3.0000 with lr=2 (run r2.0)"
    document = sweep_json(state, "ended")
    assert document["trials"][2]["value"] == "nan"
    assert document["best"]["values"] == {"lr": 2}


def test_a_run_that_was_begun_and_has_no_id_is_not_begun_again() -> None:
    story = Story()
    story.event(BEGUN, 1, name="n1", point={"lr": 1})
    ((_, run),) = story.state.active
    assert (run.id, run.name) == ("", "n1")
    assert next_start(story.state) == Start(2, 0, {"lr": 2})


def test_infeasible_points_count_and_are_never_started() -> None:
    story = Story()
    story.event(BEGUN, 1, name="n1", point={"lr": 1})
    story.event(INFEASIBLE, 1, why="it needs 90 GiB")
    state = story.state
    assert not state.active
    assert state.count(Outcome.INFEASIBLE) == 1
    assert run_sentence(state, state.trial(1), 0) == "trial 1 (lr=1) is infeasible: it needs 90 GiB"
    assert next_start(state) == Start(2, 0, {"lr": 2})


def test_each_point_is_run_with_every_seed_and_judged_by_the_mean() -> None:
    story = Story(seeds=2, trials=2)
    assert [story.begin()[:2] for _ in range(2)] == [(1, 0), (1, 1)]
    story.end(1, 1.0)
    assert story.state.trial(1).outcome is Outcome.RUNNING
    assert not story.state.values
    story.end(1, 3.0, seed=1)
    assert story.state.values == {1: 2.0}
    story.begin()
    story.end(2, None, outcome=Outcome.FAILED)
    assert next_start(story.state) is None  # the second seed of a failed trial is not tried
    assert story.state.trial(2).outcome is Outcome.FAILED


def test_all_seeds_of_a_pruned_trial_stop() -> None:
    story = Story(seeds=2, trials=2, at_once=2, pruning=Pruning(Pruner.ASHA, after=5))
    for _ in range(4):
        story.begin()
    story.end(1, 1.0)
    story.end(1, 1.0, seed=1)
    live = {RunKey(2, 0): [(10, 9.0)], RunKey(2, 1): [(1, 0.0)]}
    assert set(runs_to_prune(story.state, live)) == {RunKey(2, 0)}
    story.event(PRUNING, 2, 0, why="worse")
    assert runs_to_prune(story.state, live) == {RunKey(2, 1): "another run of its trial was pruned"}
    assert "stopping, worse" in run_sentence(story.state, story.state.trial(2), 0)
    story.event(PRUNING, 2, 1, why="another")
    assert not runs_to_prune(story.state, live)
    story.end(2, 9.0, outcome=Outcome.PRUNED)
    story.end(2, None, seed=1, outcome=Outcome.PRUNED)
    assert story.state.trial(2).outcome is Outcome.PRUNED
    assert story.state.values == {1: 1.0}


def test_a_trial_is_compared_with_those_that_were_pruned() -> None:
    story = Story(pruning=Pruning(Pruner.ASHA, after=5))
    story.begin()
    story.end(1, 1.0, outcome=Outcome.PRUNED)
    story.begin()
    assert runs_to_prune(story.state, {RunKey(2, 0): [(5, 2.0)]})
    assert not runs_to_prune(story.state, {RunKey(2, 0): [(5, 0.5)]})


def test_a_rung_is_noted_once() -> None:
    story = Story(pruning=Pruning(Pruner.ASHA, after=5), at_once=2)
    story.begin()
    story.begin()
    live = {RunKey(1, 0): [(5, 2.0)], RunKey(2, 0): [(4, 1.0)]}
    assert rungs_to_note(story.state, live) == {RunKey(1, 0): 5}
    story.event(JUDGED, 1, rung=5)
    assert not rungs_to_note(story.state, live)
    better = {RunKey(1, 0): [(5, 2.0)], RunKey(2, 0): [(5, 1.0)]}
    assert not runs_to_prune(story.state, better)


def test_a_sweep_is_stopped_and_resumed() -> None:
    story = Story()
    story.begin()
    story.change(STOP)
    assert story.state.is_stopping
    assert next_start(story.state) is None
    story.change(RESUMED)
    assert next_start(story.state) == Start(2, 0, {"lr": 2})


def test_what_was_stopped_with_the_sweep_continues_with_it() -> None:
    story = Story()
    story.begin()
    story.begin()
    story.change(STOP)
    story.event(ENDED, 1, outcome="stopped", paused=True)
    story.event(ENDED, 2, outcome="stopped", paused=False)
    assert next_continued(story.state) is None
    story.change(RESUMED)
    assert next_continued(story.state) == RunKey(1, 0)
    assert has_work(story.state)
    story.event(CONTINUED, 1)
    assert [run.id for _, run in story.state.active] == ["r1.0"]
    assert next_continued(story.state) is None
    assert story.state.trial(2).outcome is Outcome.STOPPED


def test_a_run_that_cannot_be_resumed_begins_again_under_another_name() -> None:
    story = Story()
    story.begin()
    story.event(ENDED, 1, outcome="stopped", paused=True)
    story.event(BEGUN, 1, name="n1 try 2", point={"lr": 1})
    ((_, run),) = story.state.active
    assert (run.id, run.name, run.tries) == ("", "n1 try 2", 2)
    story.event(BEGUN, 1, name="n1 try 2", point={"lr": 1})  # its driver died
    assert story.state.trial(1).runs[0].tries == 2


def test_a_sweep_is_extended_and_narrowed() -> None:
    story = Story(over=("lr=0..1",), strategy=Strategy.RANDOM, trials=1)
    story.begin()
    story.end(1, 1.0)
    assert next_start(story.state) is None
    story.change(EXTENDED, trials=5)
    wide = next_start(story.state)
    story.change(VARIED, over=["lr=0.5..0.6"])
    narrow = next_start(story.state)
    assert wide is not None
    assert narrow is not None
    assert narrow.trial == wide.trial == 2
    assert 0.5 <= narrow.point["lr"] <= 0.6
    assert story.state.most == 6
    assert story.state.trial(1).point == {"lr": story.state.trial(1).point["lr"]}


def test_a_grid_with_further_values_tries_only_those() -> None:
    story = Story(trials=3)
    for number in (1, 2, 3):
        story.begin()
        story.end(number, 1.0)
    story.change(VARIED, over=["lr=2,3,4"])
    story.change(EXTENDED, trials=3)
    assert story.begin() == Start(4, 0, {"lr": 4})
    assert next_start(story.state) is None


def test_a_sweep_of_which_all_trials_fail_ends_early() -> None:
    story = Story(over=("lr=1,2,3,4,5,6",), trials=6)
    for number in range(1, HOPELESS + 1):
        story.begin()
        story.end(number, None, outcome=Outcome.FAILED)
    assert next_start(story.state) is None


@pytest.mark.parametrize(
    ("name", "fields"), [(RESUMED, {}), (EXTENDED, {"trials": 2}), (VARIED, {"over": ["lr=4,5,6,7"]})]
)
def test_a_sweep_of_which_all_trials_failed_continues_if_it_is_asked_to(
    name: str, fields: dict[str, Any]
) -> None:
    story = Story(over=("lr=1,2,3,4,5,6,7",), trials=7)
    for number in range(1, HOPELESS + 1):
        story.begin()
        story.end(number, None, outcome=Outcome.FAILED)
    story.history.change(Event(name, 2.0, 2.0, fields))
    assert not is_hopeless(story.state)
    start = next_start(story.state)
    assert start is not None
    assert start.trial == HOPELESS + 1
    for number in range(HOPELESS + 1, 2 * HOPELESS + 1):
        story.history.driver_event(Event(BEGUN, 3.0, 3.0, {"trial": number, "point": {"lr": number}}))
        story.end(number, None, outcome=Outcome.FAILED)
    assert is_hopeless(story.state)


def test_a_damaged_line_hides_only_its_own_trial() -> None:
    story = Story(over=("lr=1,2,3,4,5",), trials=5)
    story.begin()
    story.end(1, 5.0)
    story.event(STARTED, 2, run="r2")  # the line of its beginning is damaged
    story.end(2, 1.0)
    story.event(BEGUN, 3, name="n3", point={"lr": 3})
    story.event(STARTED, 3, run="r3")
    story.end(3, 4.0)
    state = story.state
    assert [trial.outcome for trial in state.trials] == [Outcome.COMPLETE, Outcome.FAILED, Outcome.COMPLETE]
    assert state.trial(2).runs[0].why == "its record is damaged"
    assert state.values == {1: 5.0, 3: 4.0}
    assert state.best is state.trial(3)
    start = next_start(state)
    assert start is not None
    assert start.trial == 4
    assert [line.split() for line in trial_table(state)][2] == ["2", "failed", "0"]


fields = st.dictionaries(
    st.sampled_from(["trial", "seed", "point", "run", "outcome", "value", "history", "why", "over"]),
    st.one_of(
        st.none(), st.integers(-2, 4), st.floats(), st.text(max_size=3),
        st.lists(st.one_of(st.integers(), st.lists(st.integers(), max_size=3))),
        st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.sampled_from(list(Outcome)),
    ),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([BEGUN, STARTED, INFEASIBLE, PRUNING, ENDED, "other"]), fields)))
def test_damaged_events_are_skipped(events: list[tuple[str, dict[str, Any]]]) -> None:
    history = SweepHistory(ID, request())
    for name, given_fields in events:
        history.driver_event(Event(name, 1.0, 1.0, given_fields))
    state = history.state
    next_start(state)
    assert [trial.number for trial in state.trials] == list(range(1, len(state.trials) + 1))
    sweep_json(state, "ended")


def test_the_files_of_a_sweep_are_followed(tmp_path: Path) -> None:
    layout = SweepLayout(tmp_path / "sweeps" / ID)
    layout.root.mkdir(parents=True)
    asked = request(pruning=Pruning(Pruner.MEDIAN, after=4), seeds=2, at_once=3)
    write_request(layout.request, asked)
    assert read_request(layout.request) == asked
    follower = SweepFollower(layout)
    assert follower.refresh().trials == ()
    with JournalWriter(layout.journal) as journal, JournalWriter(layout.changes) as changes:
        journal.append(BEGUN, trial=1, seed=0, name="n", point={"lr": 1.5, "on": True})
        changes.append(EXTENDED, trials=2)
        journal.append(
            ENDED, trial=1, seed=0, outcome="complete", value="inf", steps=3, history=[[1, "nan"], [3, "inf"]]
        )
    state = follower.refresh()
    assert state == SweepFollower(layout).refresh()
    run = state.trial(1).runs[0]
    assert (state.most, run.value, len(run.history)) == (5, math.inf, 2)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    values: tuple[Any, ...] = (None, [], {"v": 1}, {**request().to_json(), "strategy": "luck"})
    for value in values:
        write_json(path, value)
        with pytest.raises(SweepFileError, match="is damaged"):
            read_request(path)
    write_json(path, {**request().to_json(), "v": 2})
    with pytest.raises(SweepFileError, match="newer Torchdeck"):
        read_request(path)
