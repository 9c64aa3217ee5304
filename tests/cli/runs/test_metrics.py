"""`torchdeck runs metrics`: the table, and every export read back by its own library."""

import csv
import io
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.values.made_runs import make_run
from support.values.metrics import write_rows
from torchdeck.cli.main import main
from torchdeck.cli.runs.metrics import _shown
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.telemetry.writer import MetricsWriter


@pytest.fixture
def run(torchdeck_home: Path) -> RunLayout:
    """A run of two ranks and two attempts, the second from step 2, with system series."""
    starts = [
        Event("attempt_started", float(number), 1.0, {"attempt": number, "resume_step": step})
        for number, step in ((1, None), (2, 2))
    ]
    layout = make_run(
        torchdeck_home, [Event("created", 1.0, 1.0, {"name": "gpt"})], starts, plan={"kind": "recipe"}
    )
    for rank in (0, 1):
        write_rows(layout.root, [(step, {"loss": step / 4, "lr": 0.5}) for step in range(1, 5)], rank=rank)
    write_rows(layout.root, [(3, {"loss": math.nan, "lr": 0.5})], attempt=2)
    with MetricsWriter(layout.node("localhost").system, source="system") as writer:
        writer.log({"cpu_percent": 12.5}, step=1)
    return layout


def metrics(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: int = 0) -> str:
    """What the command prints: standard output, or the error where it fails."""
    assert main(["runs", "metrics", *arguments]) == code
    printed = capsys.readouterr()
    return printed.out if code == 0 else printed.err


def test_table(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a format, each metric of each rank with its newest value."""
    lines = metrics(capsys, ["latest"]).splitlines()
    assert [line.split() for line in lines] == [
        ["loss", "rank", "0", "step", "3", "NaN"],
        ["loss", "rank", "1", "step", "4", "1"],
        ["lr", "rank", "0", "step", "3", "0.5"],
        ["lr", "rank", "1", "step", "4", "0.5"],
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("memory_bytes", 3 * 2.0**29, "1.5 GiB"),
        ("tokens", 1638400.0, "1638400"),
        ("loss", 2.41312345, "2.41312"),
        ("loss", 1e300, "1e+300"),
        ("loss", "NaN", "NaN"),
    ],
)
def test_values_are_for_people(name: str, value: float | str, shown: str) -> None:
    """Sizes with their unit, counts in full, the rest to six digits."""
    assert _shown(name, value) == shown


def test_table_as_json(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """The table for programs: standard JSON, NaN as a text, nodes by name."""
    table = json.loads(metrics(capsys, ["latest", "--json", "--system"]), parse_constant=pytest.fail)
    assert [(row["name"], row["rank"], row["node"]) for row in table] == [
        ("loss", 0, None),
        ("loss", 1, None),
        ("lr", 0, None),
        ("lr", 1, None),
        ("cpu_percent", None, "localhost"),
    ]
    assert (table[0]["value"], table[0]["attempt"], table[4]["value"]) == ("NaN", 2, 12.5)


def test_csv(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of the chosen series, in the order of attempts, to standard output."""
    text = metrics(capsys, ["latest", "--format", "csv", "--name", "loss", "--rank", "0"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["attempt"], row["step"], row["value"]) for row in rows] == [
        ("1", "1", "0.25"),
        ("1", "2", "0.5"),
        ("1", "3", "0.75"),
        ("1", "4", "1.0"),
        ("2", "3", "nan"),
    ]
    assert {(row["name"], row["rank"], row["node"]) for row in rows} == {("loss", "0", "")}


def test_effective_rows(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """With --effective, steps that were done again count once."""
    text = metrics(capsys, ["latest", "--format", "csv", "--name", "loss", "--rank", "0", "--effective"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["attempt"], row["step"]) for row in rows] == [("1", "1"), ("1", "2"), ("2", "3")]


def test_jsonl(run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object a line, into a file, patterns of names."""
    out = tmp_path / "out.jsonl"
    assert (
        metrics(capsys, ["latest", "--format", "jsonl", "--name", "l*", "--system", "--out", str(out)]) == ""
    )
    rows = [json.loads(line, parse_constant=pytest.fail) for line in out.read_text().splitlines()]
    assert len(rows) == 18
    assert rows[4]["value"] == "NaN"
    assert {row["name"] for row in rows} == {"loss", "lr"}
    assert list(tmp_path.glob(".*tmp")) == []


def test_parquet(run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pyarrow reads back what was logged, with its types."""
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    metrics(capsys, ["latest", "--format", "parquet", "--system", "--out", str(out)])
    rows = parquet.read_table(out).to_pylist()
    assert len(rows) == 19
    assert rows[0] | {"time": 0.0} == {
        "name": "loss",
        "rank": 0,
        "node": None,
        "attempt": 1,
        "step": 1,
        "time": 0.0,
        "value": 0.25,
    }
    assert (rows[-1]["name"], rows[-1]["rank"], rows[-1]["node"]) == ("cpu_percent", None, "localhost")


def test_tensorboard(run: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TensorBoard's own reader finds each rank, and each attempt where steps were done twice."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = tmp_path / "board"
    metrics(capsys, ["latest", "--format", "tensorboard", "--out", str(out)])
    found = {}
    for folder in ("rank_0/attempt_1", "rank_0/attempt_2", "rank_1"):
        events = accumulator.EventAccumulator(str(out / folder))
        events.Reload()
        found[folder] = [(event.step, event.value) for event in events.Scalars("lr")]
    whole = [(step, 0.5) for step in range(1, 5)]
    assert found == {"rank_0/attempt_1": whole, "rank_0/attempt_2": [(3, 0.5)], "rank_1": whole}
    said = metrics(capsys, ["latest", "--format", "tensorboard", "--out", str(out)], code=2)
    assert "already exists" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no run 'nothing'"),
        (["latest", "--name", "los"], "there is no metric 'los'; there is loss"),
        (["latest", "--rank", "7"], "rank 7 has no metrics; ranks with: 0, 1"),
        (["latest", "--format", "parquet"], "parquet is written to a file: say which with --out PATH"),
        (["latest", "--format", "tensorboard"], "tensorboard is written to a folder"),
        (["latest", "--out", "x.csv"], "--out needs --format"),
        (["latest", "--format", "csv", "--json"], "--format jsonl"),
        (["latest", "--format", "csv", "--out", "/proc/none/x.csv"], "/proc/none/x.csv cannot be written"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    run: RunLayout, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit code 2 and a sentence that says what would be right."""
    error = metrics(capsys, arguments, code=2)
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("form", "package"),
    [("parquet", "pyarrow"), ("tensorboard", "tensorboard.summary.writer.event_file_writer")],
)
def test_missing_extra(
    run: RunLayout,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    package: str,
) -> None:
    """Without the export extra the command says what to install, and leaves nothing behind."""
    monkeypatch.setitem(sys.modules, package, None)
    error = metrics(capsys, ["latest", "--format", form, "--out", str(tmp_path / "out" / "x")], code=2)
    assert "pip install 'torchdeck[export]'" in error
    assert not (tmp_path / "out" / "x").exists()


def test_run_without_metrics(torchdeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that has measured nothing yet says so, and exports an empty table."""
    make_run(torchdeck_home, [Event("created", 1.0, 1.0, {"name": "gpt"})])
    assert metrics(capsys, ["latest"]) == "no metrics yet\n"
    assert json.loads(metrics(capsys, ["latest", "--json"])) == []
    assert metrics(capsys, ["latest", "--format", "csv"]).splitlines() == [
        "name,rank,node,attempt,step,time,value"
    ]


def test_file_that_cannot_be_read_is_said(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged segment is named on standard error, and the others are shown."""
    (run.attempt(1).rank(0).metrics / "broken.metrics").write_text("nothing of ours")
    assert main(["runs", "metrics", "latest"]) == 0
    printed = capsys.readouterr()
    assert "broken.metrics: not a metrics segment" in printed.err
    assert "loss" in printed.out


def test_goodput(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON; with the options of the table it is refused."""
    assert metrics(capsys, ["latest", "--goodput"]).startswith("goodput ")
    found = json.loads(metrics(capsys, ["latest", "--goodput", "--json"]))
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert found["joules"] is None
    assert "takes no option but --json" in metrics(capsys, ["latest", "--goodput", "--name", "loss"], 2)


def test_goodput_is_exported(run: RunLayout, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same numbers as with --json, one row per number; a format of rows per step is refused."""
    asked = ["latest", "--goodput"]
    found = json.loads(metrics(capsys, [*asked, "--json"]))
    lines = [json.loads(line) for line in metrics(capsys, [*asked, "--format", "jsonl"]).splitlines()]
    values = {row["name"]: row["value"] for row in lines}
    assert {row["node"] for row in lines} == {None}
    assert values["wall_seconds"] == found["wall_seconds"]
    assert values["productive_share"] == found["shares"]["productive"]
    assert len(values) == 1 + len(found["seconds"]) + len(found["shares"])
    out = tmp_path / "goodput.csv"
    assert metrics(capsys, [*asked, "--format", "csv", "--out", str(out)]) == ""
    header, first, *_ = out.read_text().splitlines()
    assert header == "node,name,value"
    assert first == f",wall_seconds,{found['wall_seconds']}"
    assert "csv or jsonl" in metrics(capsys, [*asked, "--format", "parquet", "--out", str(out)], 2)
    nowhere = str(tmp_path / "none" / "x.csv")
    assert "cannot be written" in metrics(capsys, [*asked, "--format", "csv", "--out", nowhere], 2)


def test_formulas_are_shown_and_exported(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    lines = metrics(capsys, ["latest", "--formula", "loss * 2 + lr", "--rank", "1"]).splitlines()
    assert [line.split() for line in lines] == [
        ["=", "loss", "*", "2", "+", "lr", "rank", "1", "step", "4", "2.5"]
    ]
    text = metrics(capsys, ["latest", "--formula", "loss * 2", "--name", "lr", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["name"] for row in rows} == {"lr", "= loss * 2"}
    assert [row["value"] for row in rows if row["name"] != "lr" and row["rank"] == "1"] == [
        "0.5",
        "1.0",
        "1.5",
        "2.0",
    ]
    assert "is not understood at character 1" in metrics(capsys, ["latest", "--formula", "open('x')"], 2)
    assert "there is no metric 'los'; there is loss" in metrics(capsys, ["latest", "--formula", "los / 2"], 2)
