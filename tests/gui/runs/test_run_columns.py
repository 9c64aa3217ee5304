"""What the list says of a run, and which columns there is room for."""

import math
from dataclasses import replace

import pytest

from support.values.run_entries import FAILED, NOW, entry, live_view, over_view, progress, run_id
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_state import Hang, RunState
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck_app.runs.comparison import end_values
from torchdeck_app.runs.run_columns import COLUMNS, KEYS, columns_for, look_of
from torchdeck_app.runs.run_filter import GROUPS, counts

WIDTHS = dict.fromkeys(KEYS, 100)


def text(key: str, row: Row, now: float = NOW) -> str:
    return COLUMNS[key].text(row, now)


def test_a_run_that_goes_on() -> None:
    row = Row(
        entry(
            1,
            live_view(run_id(1)),
            progress=progress(
                1240, 2000, loss=2.31415, validation_loss=2.5, tokens_per_s=12345, eta=134, epoch=1.254
            ),
        ),
        Note(("best",)),
    )
    said = {key: text(key, row) for key in KEYS}
    assert said == {
        "state": "● running",
        "name": "gpt",
        "loss": "2.3142",
        "validation": "2.5000",
        "step": "1,240 / 2,000",
        "epoch": "1.25",
        "throughput": "12.3k tok/s",
        "eta": "2 min 14 s",
        "started": "1 min ago",
        "duration": "1 min 39 s",
        "strategy": "ddp",
        "ranks": "2",
        "tags": "best",
    }


def test_a_run_that_is_over_took_what_it_took() -> None:
    row = Row(entry(1, progress=progress(eta=5.0)), Note())
    assert text("duration", row) == text("duration", row, NOW + 1000) == "4 s"
    assert text("eta", row) == ""


def test_what_cannot_be_read_says_why() -> None:
    row = Row(entry(1, why="written by a newer Torchdeck"), Note())
    assert text("state", row) == "? unreadable"
    exact = COLUMNS["state"].exact
    assert exact is not None
    assert exact(row, NOW) == "unreadable: written by a newer Torchdeck"
    assert {text(key, row) for key in KEYS if key not in ("state", "name")} == {""}


def test_a_script_that_counts_samples_has_a_throughput() -> None:
    row = Row(entry(1, live_view(run_id(1)), progress=progress(samples_per_s=1234.5)), Note())
    exact = COLUMNS["throughput"].exact
    assert exact is not None
    assert (text("throughput", row), exact(row, NOW)) == ("1.23k smp/s", "1,234.5 samples per second")
    assert COLUMNS["throughput"].key(row) == 1234.5


def test_a_loss_that_is_no_number_is_said() -> None:
    assert text("loss", Row(entry(1, progress=progress(loss=math.nan)), Note())) == "NaN"


@pytest.mark.parametrize("width", [0, 150, 250, 420, 640, 2000])
def test_a_narrow_list_keeps_state_and_name_and_what_is_wanted_most(width: int) -> None:
    shown = columns_for(width, WIDTHS)
    assert shown[:2] == ("state", "name")
    assert len(shown) == max(2, min(len(KEYS), width // 100))
    assert list(shown) == [key for key in KEYS if key in shown]
    assert len(shown) < 4 or "loss" in shown


def test_every_state_is_in_exactly_one_group() -> None:
    states = [state for group in GROUPS for state in group.states]
    assert len(states) == len(set(states)) == 12


def test_the_filter_takes_all_words_and_any_group() -> None:
    good = Row(entry(1), Note(("Sweep",), "with warm-up"))
    bad = Row(entry(2, over_view(run_id(2), FAILED)), Note())
    assert RunFilter("gpt sweep WARM").takes(good)
    assert RunFilter("state = succeeded and tag = sweep").takes(good)
    assert not RunFilter("state = succeeded and tag = sweep").takes(bad)
    assert RunFilter("state =").takes(bad), "all are shown while an expression is typed"
    assert "expected a value" in RunFilter("state =").problem
    assert RunFilter("gpt").problem == RunFilter("loss < 3").problem == ""
    assert not RunFilter("gpt sweep").takes(bad)
    assert [RunFilter("", frozenset({"failed"})).takes(row) for row in (good, bad)] == [False, True]
    assert all(RunFilter("", frozenset({"failed", "succeeded"})).takes(row) for row in (good, bad))
    assert counts([good.entry, bad.entry])["failed"] == 1


def test_a_run_that_nobody_follows_is_not_said_to_run() -> None:
    """What it did last is said with its age, and nothing is reckoned on from it."""
    view = replace(live_view(run_id(1)), followed_until=NOW - 20)
    row = Row(entry(1, view, progress=progress(1240, 2000, tokens_per_s=12345, eta=134)), Note())
    assert text("state", row) == "? unknown"
    assert look_of(row.entry).colour == "warn"
    assert (text("eta", row), text("throughput", row)) == ("", "")
    assert text("duration", row) == text("duration", row, NOW + 1000)
    exact = COLUMNS["state"].exact
    assert exact is not None
    said = "unknown: running at the last report, 20 s ago; Attach asks its nodes"
    assert exact(row, NOW) == said
    assert {key: count for key, count in counts([row.entry]).items() if count} == {"unknown": 1}
    assert [RunFilter("", frozenset({key})).takes(row) for key in ("live", "unknown")] == [False, True]


def test_a_run_that_hangs_is_marked() -> None:
    """Not one that is being stopped, and not after its end."""
    hang = Hang(1, "training", 3, 60.0, 30.0)
    live = replace(live_view(run_id(1)), hangs=(hang,))
    assert text("state", Row(entry(1, live), Note())) == "! hung"
    assert look_of(entry(1, live)).colour == "bad"
    assert look_of(entry(1, replace(live, state=RunState.STOPPING))).word == "stopping"
    assert look_of(entry(1, replace(over_view(run_id(1)), hangs=(hang,)))).word == "succeeded"


@pytest.mark.parametrize(
    ("phase", "said", "exact"),
    [
        ("training", "● running", "running"),
        ("running", "● running", "running"),
        ("evaluating", "● evaluating", "running: evaluating validation data"),
        ("saving", "● saving", "running: saving a checkpoint"),
        ("done", "● finishing", "running: finishing"),
    ],
)
def test_the_state_names_a_phase_other_than_training(phase: str, said: str, exact: str) -> None:
    row = Row(entry(1, live_view(run_id(1)), progress=replace(progress(), phase=phase)), Note())
    assert text("state", row) == said
    found = COLUMNS["state"].exact
    assert found is not None
    assert found(row, NOW) == exact


def test_a_phase_is_not_shown_instead_of_a_more_important_state() -> None:
    """Hung, stopping, not followed, or over."""
    live, evaluates = live_view(run_id(1)), replace(progress(), phase="evaluating")
    hang = Hang(1, "evaluating", 3, 60.0, 30.0)
    views = [
        replace(live, hangs=(hang,)),
        replace(live, state=RunState.STOPPING),
        replace(live, followed_until=NOW - 20),
        over_view(run_id(1)),
    ]
    said = [text("state", Row(entry(1, view, progress=evaluates), Note())) for view in views]
    assert said == ["! hung", "◐ stopping", "? unknown", "✓ succeeded"]


def test_an_epoch_has_a_column_of_numbers() -> None:
    """Sorted by its value; a run without one has none."""
    rows = [Row(entry(1, progress=progress(epoch=value)), Note()) for value in (0.0421, 12.0, 1240.2, None)]
    assert [text("epoch", row) for row in rows] == ["0.0421", "12", "1,240", ""]
    assert [COLUMNS["epoch"].key(row) for row in rows] == [0.0421, 12.0, 1240.2, None]


def test_a_comparison_has_epoch_and_time_left() -> None:
    """Of a run that is over, the epoch alone."""
    live = entry(1, live_view(run_id(1)), progress=progress(eta=134.0, epoch=1.5))
    over = entry(2, progress=progress(eta=134.0, epoch=3.0))
    values = {row[0]: row[1:] for row in end_values([live, over, entry(3)], NOW)}
    assert values["Epoch"] == ("1.5", "3", "–")
    assert values["Time left"] == ("2 min 14 s", "–", "–")
