"""The table of runs without a window: values, columns, order, groups, views."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.histories import controller_journal
from support.values.made_runs import IDS, make_run
from support.values.metrics import write_rows
from support.values.run_entries import DONE, entry, progress
from torchdeck.runs.folders.notes import Note
from torchdeck.runs.query.metric_values import best_of, metric_key
from torchdeck.runs.table.arrangement import Section, in_order, in_sections, summary
from torchdeck.runs.table.columns import ColumnsError, column_names, offered_names, value_text
from torchdeck.runs.table.reading import read_rows, rows_in_view
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.runs.table.views import TableView, ViewError, read_views, view_named
from torchdeck.use_cases.table.notes import change_notes
from torchdeck.use_cases.table.views import delete_view, save_view


def row(number: int, note: Note | None = None, **fields: Any) -> Row:
    return Row(entry(number, **fields), note or Note())


def by(name: str) -> Any:
    return lambda each: each.sortable(name)


def ids(rows: list[Row]) -> list[str]:
    return [each.entry.id for each in rows]


def test_names_mean_settings_before_metrics() -> None:
    """As in the filter: `lr` is the setting though a metric is called so, too."""
    one = row(1, settings={"training.lr": "0.1"}, metrics={"lr": 0.0, "grad_norm": 1.5, "loss:min": 0.25})
    assert (one.value("lr"), one.sortable("lr")) == ("0.1", 0.1)
    assert (one.value("metric.lr"), one.value("grad_norm"), one.value("loss:min")) == (0.0, 1.5, 0.25)
    assert (one.value("gone"), one.sortable("gone")) == (None, None)
    assert RunFilter("grad_norm > 1 and loss:min < 1 and lr = 0.1").takes(one)
    offered = offered_names([one])
    assert [name for name in offered if "lr" in name] == ["training.lr", "metric.lr", "lr:best"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("loss", None),
        ("loss:best", ("loss", "best", -1)),
        ("train/loss@1000", ("train/loss", "", 1000)),
        ("loss:", None),
        ("@3", None),
        ("loss@x", None),
    ],
)
def test_names_of_metrics_values(name: str, key: object) -> None:
    assert metric_key(name) == key


def test_more_is_better_for_accuracy() -> None:
    assert [best_of(name) for name in ("val/acc", "eval_F1", "tokens_per_s", "loss", "pace")] == [
        "max", "max", "max", "min", "min",
    ]  # fmt: skip


def test_less_is_better_for_losses_and_errors_of_whatever() -> None:
    names = ("map_loss", "val/top1_error", "train/accuracy_loss", "fid_score", "Perplexity score")
    assert [best_of(name) for name in names] == ["min"] * 5


def test_of_two_rows_at_a_step_the_last_counts(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE, run_file="[training]\nlr = 0.1\n")
    write_rows(layout.root, [(0, {"loss": 5.0}), (10, {"loss": 4.0}), (10, {"loss": 3.0})])
    (found,) = read_rows(tmp_path, ["loss@10"])
    assert found.entry.metrics == {"loss": 3.0, "loss@10": 3.0}


def test_values_of_metrics_are_read_from_the_files(tmp_path: Path) -> None:
    layout = make_run(tmp_path, controller_journal(), DONE, run_file="[training]\nlr = 0.1\n")
    losses = [5.0, 3.0, 1.0, float("nan"), 2.0]
    write_rows(layout.root, [(10 * at, {"train/loss": loss}) for at, loss in enumerate(losses)])
    (found,) = read_rows(
        tmp_path, ["loss:best", "train/loss:max", "loss@25", "loss@40", "loss@41", "loss:last", "x:min", "lr"]
    )
    assert found.entry.metrics == {
        "train/loss": 2.0,
        "loss:best": 1.0,
        "train/loss:max": 5.0,
        "loss@25": 1.0,
        "loss@40": 2.0,
        "loss:last": 2.0,
    }
    assert found.value("lr") == "0.1"


@given(
    st.lists(st.sampled_from([None, float("nan"), "a", "b", 1.0, 2, -3.5]), max_size=12),
    st.booleans(),
    st.sets(st.integers(0, 11)),
)
def test_pinned_runs_come_first_and_runs_without_a_value_last(
    values: list[Any], descending: bool, pinned: set[int]
) -> None:
    rows = [row(at, Note(pinned=at in pinned)) for at in range(len(values))]
    keys = {each.entry.id: value for each, value in zip(rows, values, strict=True)}
    ordered = in_order(rows, lambda each: keys[each.entry.id], descending=descending)
    assert sorted(ids(ordered)) == sorted(ids(rows))
    assert [each.note.pinned for each in ordered] == sorted((each.note.pinned for each in rows), reverse=True)
    for part in ([each for each in ordered if each.note.pinned is on] for on in (True, False)):
        found = [keys[each.entry.id] for each in part]
        known = [value for value in found if value is not None and value == value]
        assert all(value is None or value != value for value in found[len(known) :])
        numbers = [value for value in known if not isinstance(value, str)]
        assert numbers == sorted(numbers, reverse=descending)


def test_runs_are_grouped_with_mean_and_deviation() -> None:
    rows = [
        row(at, settings={"training.seed": str(at % 2), "training.lr": lr}, progress=progress(loss=float(at)))
        for at, lr in enumerate(["0.1", "0.1", "0.2", "0.2"])
    ]
    assert [(each.title, len(each.rows)) for each in in_sections(rows, "seed")] == [
        ("seed 0", 2),
        ("seed 1", 2),
    ]
    variants = in_sections(rows, "!seed")
    assert [(each.title.rpartition(", ")[2], len(each.rows)) for each in variants] == [
        ("lr 0.1", 2),
        ("lr 0.2", 2),
    ]
    assert in_sections(rows, "gone") == (Section("no gone", tuple(rows)),)
    assert in_sections(rows, "") == (Section("", tuple(rows)),)
    found = summary(each.sortable("loss") for each in variants[1].rows)
    assert found is not None
    assert (found.text, found.runs) == ("2.5000 ± 0.7071", 2)
    assert summary([1.5, None, "x", float("nan")]) == (1.5, None, 1)
    assert summary([None, "x"]) is None


def test_settings_with_the_same_last_word_do_not_share_a_group() -> None:
    keys = ("model.size", "optim.size")
    rows = [row(at, settings={keys[at % 2]: "4", "seed": str(at)}) for at in range(4)]
    rows.append(row(4, settings=dict.fromkeys(keys, "4")))
    assert [(each.title, len(each.rows)) for each in in_sections(rows, "!seed")] == [
        ("model.size 4", 2),
        ("optim.size 4", 2),
        ("model.size 4, optim.size 4", 1),
    ]


def test_columns_are_named_once_and_not_without_end() -> None:
    assert column_names("loss, lr,loss") == ("loss", "lr")
    for wrong in (" ,", ",".join(map(str, range(50))), "x" * 300):
        with pytest.raises(ColumnsError):
            column_names(wrong)
    assert [value_text(*each) for each in (("took", 65.0), ("step", 1200), ("x", 0.5), ("y", None))] == [
        "1 min 5 s", "1,200", "0.5000", "",
    ]  # fmt: skip


VIEW = TableView(
    RunFilter("lr > 1", frozenset({"failed"}), archived=True), ("lr", "loss:min"), "lr", False, "seed"
)


def test_a_saved_view_comes_back(tmp_path: Path) -> None:
    save_view(tmp_path, " mine ", VIEW)
    assert read_views(tmp_path) == {"mine": VIEW}
    assert view_named(tmp_path, "mine") == VIEW
    with pytest.raises(ViewError, match="expected one of: mine"):
        view_named(tmp_path, "other")
    with pytest.raises(ViewError, match="needs a name"):
        save_view(tmp_path, " \n", VIEW)
    assert delete_view(tmp_path, "mine") == {}


def test_a_newer_file_of_views_is_refused_and_a_damaged_one_copied_first(
    tmp_path: Path,
) -> None:
    file = tmp_path / "views.json"
    file.write_text('{"v": 1, "views": {"a": 3, "b": {"sort": 4, "groups": ["x"], "columns": [1, "lr"]}}}')
    assert read_views(tmp_path) == {"b": TableView(columns=("lr",))}
    file.write_text("[")
    with pytest.raises(ViewError, match="damaged"):
        read_views(tmp_path)
    told: list[str] = []
    assert save_view(tmp_path, "mine", VIEW, told.append) == {"mine": VIEW}
    (copy,) = tmp_path.glob("views.json.damaged-*")
    assert copy.read_text() == "["
    assert copy.name in told[0]
    file.write_text(json.dumps({"v": 99}))
    with pytest.raises(ViewError, match="newer"):
        save_view(tmp_path, "mine", VIEW)
    assert json.loads(file.read_text()) == {"v": 99}


def test_archived_runs_are_shown_if_asked_for(tmp_path: Path) -> None:
    for each in IDS:
        make_run(tmp_path, controller_journal(), DONE, run_id=each)
    change_notes(tmp_path, IDS[:1], lambda note: replace(note, pinned=True))
    change_notes(tmp_path, IDS[1:2], lambda note: replace(note, archived=True))
    assert ids(rows_in_view(tmp_path, TableView())) == [IDS[0], IDS[2]]
    for wanted in (RunFilter(archived=True), RunFilter("archived = yes or archived = no")):
        assert len(rows_in_view(tmp_path, TableView(wanted))) == 3
