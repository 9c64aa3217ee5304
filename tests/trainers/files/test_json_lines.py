"""Lines of JSON as programs write them, and tables without steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.trainers.files.csv_file import CsvFile
from torchdeck.trainers.files.json_lines import JsonLines
from torchdeck.trainers.reading import Reading

LINES = {
    "LLaMA-Factory": (
        """{"current_steps": 10, "total_steps": 375, "loss": 1.2468, "lr": 4.99e-05, "epoch": 0.08,
        "percentage": 2.67, "elapsed_time": "0:00:12", "remaining_time": "0:07:18", "throughput": 812.3,
        "total_tokens": 9984}""",
        Reading({"loss": 1.2468, "lr": 4.99e-05, "tokens_per_s": 812.3, "total_tokens": 9984.0},
                10, 375, 0.08),
    ),
    "LLaMA-Factory's evaluation": (
        """{"current_steps": 20, "total_steps": 375, "eval_loss": 1.5, "epoch": 0.16, "percentage": 5.33,
        "elapsed_time": "0:00:25", "remaining_time": "0:07:00"}""",
        Reading({"eval_loss": 1.5}, 20, 375, 0.16),
    ),
    "ms-swift": (
        """{"loss": 2.11, "token_acc": 0.56, "learning_rate": 1e-05, "memory(GiB)": 12.5,
        "train_speed(s/it)": 1.91, "epoch": 0.1, "global_step/max_steps": "10/100", "percentage": "10.00%",
        "elapsed_time": "19s", "remaining_time": "2m 51s"}""",
        Reading(
            {"loss": 2.11, "token_acc": 0.56, "learning_rate": 1e-05, "memory(GiB)": 12.5,
             "train_speed(s/it)": 1.91}, 10, 100, 0.1),
    ),
    "ms-swift with Megatron": ('{"lm loss": 2.5, "iteration": "5/60"}', Reading({"lm loss": 2.5}, 5, 60)),
    "verl": (
        '{"step": 3, "data": {"actor/pg_loss": -0.25, "training/epoch": 1}}',
        Reading({"actor/pg_loss": -0.25, "training/epoch": 1.0}, 3),
    ),
    "a script": (
        '{"step": 4, "loss": NaN, "optimizer": {"lr": 0.1}, "time": 1795477975.5, "name": "x", "ok": true}',
        None,
    ),
    "a time since the start": ('{"iter": 4, "loss": 1, "time": 12.5}', Reading({"loss": 1.0}, 4)),
    "no numbers": ('{"text": "a", "tokens": [1, 2]}', None),
    "a list": ("[1, 2]", None),
}  # fmt: skip


@pytest.mark.parametrize("program", [name for name in LINES if name != "a script"])
def test_a_line(tmp_path: Path, program: str) -> None:
    """Step, total and epoch out of it, and the metrics that remain."""
    text, expected = LINES[program]
    line = text.replace("\n", " ")
    path = tmp_path / "log.jsonl"
    path.write_text(f"{line}\nnot JSON\n{line[:-3]}")
    assert JsonLines(path).read() == ([] if expected is None else [expected])


def test_a_line_of_a_script(tmp_path: Path) -> None:
    """NaN is a value; numbers of inner objects have their names before; texts and truths are none."""
    path = tmp_path / "log.jsonl"
    path.write_text(LINES["a script"][0] + "\n")
    (reading,) = JsonLines(path).read()
    assert repr(reading.values) == "{'loss': nan, 'optimizer/lr': 0.1}"
    assert (reading.step, reading.time) == (4, 1795477975.5)


def test_only_lines_of_this_run(tmp_path: Path) -> None:
    """What was there when it began is another run's; a file that was begun again is this run's."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "loss": 1}\n')
    begin = path.stat().st_size
    with path.open("a") as file:
        file.write('{"step": 2, "loss": 2}\n')
    reader = JsonLines(path, begin)
    assert [reading.step for reading in reader.read()] == [2]
    path.write_text('{"step": 3, "loss": 3}\n')
    assert [reading.step for reading in reader.read()] == [3]


def test_a_line_without_end_is_passed_over(tmp_path: Path) -> None:
    """In pieces, whatever its length; the next line counts."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 3_000_000 + b'"}\n{"step": 5, "loss": 5}\n')
    reader = JsonLines(path)
    found = reader.read()
    while reader.more:
        found += reader.read()
    assert [reading.step for reading in found] == [5]


def test_rows_of_a_table_before_the_run(tmp_path: Path) -> None:
    """Of a script that appends the header counts, older rows do not. Ultralytics has spaces, and no step."""
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,   time, train/box_loss\n1, 4.5, 0.5\n")
    begin = path.stat().st_size
    with path.open("a") as file:
        file.write("2, 9.1, 0.25\n3, 13,")
    reader = CsvFile(path, begin)
    assert reader.read() == [Reading({"train/box_loss": 0.25}, epoch=2)]
    with path.open("a") as file:
        file.write(" 0.125\n")
    assert reader.read() == [Reading({"train/box_loss": 0.125}, epoch=3)]


def test_a_header_that_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    """The file is read once, and not from its start again and again."""
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"\repoch,step,train_loss\r\n0,0,0.5\r\n0")
    reader = CsvFile(path, 0)
    assert [reader.read() for _ in range(3)] == [[], [], []]
    assert not reader.more


def test_the_rest_of_a_line_that_is_too_long_is_waited_for(tmp_path: Path) -> None:
    """Without its end there is nothing more to read now; the line after it counts."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"loss": 1, "text": "' + b"x" * (3 << 20))
    reader = JsonLines(path)
    while reader.read() or reader.more:
        assert reader._file.behind
    with path.open("ab") as file:
        file.write(b'x"}\n{"loss": 0.5, "step": 3}\n')
    assert [(found.values, found.step) for found in reader.read()] == [({"loss": 0.5}, 3)]
