"""`torchdeck runs logs` on runs made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.runs.conftest import FAILED, output_of
from support.values.histories import (
    controller_journal,
)
from support.values.made_runs import IDS, make_run
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.log_times import ROW
from torchdeck.runs.follower import RunFollower


def test_logs_of_all_ranks_and_of_one(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks with the rank in front; one rank's lines as they are; standard error on request."""
    text = output_of(capsys, "runs", "logs", IDS[0])
    assert text == "[rank 0] zero\n[rank 0] first\n[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "0") == "zero\nfirst\nagain\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "1", "--stderr") == "Traceback\n"
    assert output_of(capsys, "runs", "logs", IDS[0], "--rank", "1", "--follow") == "one\n"
    rows = [json.loads(row) for row in output_of(capsys, "runs", "logs", IDS[0], "--json").splitlines()]
    assert rows[0] == {"attempt": 1, "rank": 0, "stream": "stdout", "text": "zero"}


def test_logs_of_a_rank_that_is_not_there(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """Says which ranks there are."""
    assert main(["runs", "logs", IDS[0], "--rank", "2"]) == 2
    assert "ranks 0 to 1" in capsys.readouterr().err


def test_logs_of_all_ranks_are_printed_without_reading_the_journals(
    failed: RunLayout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be long; only the number of a rank is compared with them."""
    read: list[RunLayout] = []

    def follower(layout: RunLayout) -> RunFollower:
        read.append(layout)
        return RunFollower(layout)

    monkeypatch.setattr("torchdeck.cli.runs.logs.RunFollower", follower)
    for words in ([], ["--tail", "1"], ["--grep", "first"]):
        assert output_of(capsys, "runs", "logs", IDS[0], *words)
    assert read == []
    assert main(["runs", "logs", IDS[0], "--rank", "2"]) == 2
    assert [layout.root for layout in read] == [failed.root]


@pytest.mark.processes
def test_output_that_nobody_reads_is_no_traceback(torchdeck_home: Path) -> None:
    """`torchdeck runs logs ID | head` ends in silence."""
    make_run(torchdeck_home, controller_journal(), FAILED, output={(1, 0, "stdout"): "x" * 99 + "\n" * 20000})
    command = f"{sys.executable} -m torchdeck.cli.main runs logs latest | head -c 10"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "[rank 0] x"
    assert done.stderr == ""


def write_times(layout: RunLayout) -> None:
    """Rank 0 printed a minute before rank 1, and again in the second attempt."""
    now = time.time()
    for attempt, rank, ago in ((1, 0, 7200.0), (1, 1, 3600.0), (2, 0, 60.0)):
        files = layout.attempt(attempt).rank(rank)
        lengths = [path.stat().st_size if path.exists() else 0 for path in (files.stdout, files.stderr)]
        files.log_times.write_bytes(ROW.pack(now - ago, *lengths))


def test_last_lines_of_logs(failed: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    """--tail, --since and --grep, each alone and together, in order of time."""
    write_times(failed)
    command = ("runs", "logs", IDS[0])
    assert output_of(capsys, *command, "--tail", "2") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--tail", "2", "--rank", "0") == "first\nagain\n"
    assert output_of(capsys, *command, "--tail", "0") == ""
    assert output_of(capsys, *command, "--since", "90m") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "1h30m", "--tail", "1") == "[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "90m", "--grep", "^o") == "[rank 1] one\n"
    assert (
        output_of(capsys, *command, "--grep", "r[so]|^o") == "[rank 0] zero\n[rank 0] first\n[rank 1] one\n"
    )
    assert output_of(capsys, *command, "--tail", "1", "--grep", "o") == "[rank 1] one\n"
    assert output_of(capsys, *command, "--tail", "9", "--since", "2999-01-01") == ""
    (found,) = output_of(capsys, *command, "--stderr", "--tail", "1", "--json").splitlines()
    assert json.loads(found) == {"attempt": 1, "rank": 1, "stream": "stderr", "text": "Traceback"}
    assert output_of(capsys, *command, "--tail", "1", "--follow") == "[rank 1] one\n[rank 0] again\n"
    assert output_of(capsys, *command, "--since", "90m", "--grep", "x", "--follow") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tail", "-1"], "whole number"),
        (["--tail", "many"], "whole number"),
        (["--since", "yesterday"], "give how long ago"),
        (["--since", "25:00"], "give how long ago"),
        (["--grep", "("], "no regular expression"),
    ],
)
def test_wrong_choices_of_lines_say_what_is_right(
    failed: RunLayout, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit code 2."""
    try:
        code: object = main(["runs", "logs", IDS[0], *words])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert said in capsys.readouterr().err
