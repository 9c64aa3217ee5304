"""Cards of failed runs: whom they blame, and remedies that fit the program and the place of reading."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from support.values.histories import controller_journal, ended, event, failure, finished, running_run
from support.values.made_runs import make_run
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.failure import diagnose
from torchdeck.runs.failures.chapter import Program, Recognised, chapter
from torchdeck.runs.failures.own_code import Front
from torchdeck.runs.follower import read_run

RESET = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:2260."


def failed_run(folder: Path, first: dict[str, Any], *events: Event) -> RunLayout:
    """A script's run whose first failure is `first`, after `events`."""
    created, *begun = controller_journal()
    begun.insert(0, dataclasses.replace(created, fields={**created.fields, "kind": "script"}))
    last = [ended(1, "failed", first), finished("FAILED", why="failed")]
    return make_run(folder, begun, [*running_run(), *events, *last])


def card(layout: RunLayout, front: Front = Front.TERMINAL) -> Recognised:
    found = diagnose(layout, read_run(layout), front)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (
            "ended by SIGKILL: another process killed it; memory had not run out (18 of 23 GiB)",
            "A rank was killed",
        ),
        (
            "ended by SIGKILL: another process killed it, or the kernel because memory ran out: see dmesg",
            "A rank was killed",
        ),
        (
            "ended by SIGKILL: the kernel killed it because memory ran out (kernel log: x)",
            "Out of memory on the machine",
        ),
        ("ended by SIGKILL: perhaps because memory ran out (0.1 of 23 GiB)", "Out of memory on the machine"),
        ("ended by SIGSEGV (crashed in native code) in decode (data.py:4)", "A rank crashed in native code"),
    ],
)
def test_a_signals_cause_is_the_agents_not_what_its_peers_print(
    tmp_path: Path, words: str, title: str
) -> None:
    """Rank 0 reports its own trouble, long ago, and the lost connection; rank 1 was ended by a signal."""
    number = 11 if "SEGV" in words else 9
    layout = failed_run(
        tmp_path, failure(rank=1, code=128 + number, signal=number, message=words, traceback="")
    )
    for rank, text in (
        (0, f"CUDA out of memory, smaller batch taken\n{RESET}\n"),
        (1, "CUDA out of memory\n"),
    ):
        folder = layout.attempt(1).rank(rank)
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.stderr.write_text(text)
    found = card(layout)
    assert (found.advice.title, found.where) == (title, "rank 1")


def test_a_rank_that_left_early_is_named_as_the_cause(tmp_path: Path) -> None:
    """Not the one that lost its connection to it; a rank that ended after that one is no cause."""
    for code, time, title in (
        (0, 108.0, "A rank ended before the others"),
        (0, 111.0, "Another rank is gone"),
    ):
        lost = failure(rank=0, code=1, signal=None, message=RESET, traceback="", time=109.5)
        left = event("rank_exited", time, attempt=1, rank=1, code=code, signal=None)
        found = card(failed_run(tmp_path / str(time), lost, left))
        assert found.advice.title == title
        if time < 109:
            assert (found.where, "1.5 s before rank 0" in found.line) == ("rank 1", True)


@pytest.mark.parametrize("program", list(Program))
def test_remedies_name_no_key_that_the_program_does_not_have(program: Program) -> None:
    """A script reads none of the recipes' tables of run.toml."""
    for advice in chapter():
        text = advice.for_program(program).text
        assert text
        assert "In a recipe:" not in text
        assert "In a script:" not in text
        if program is Program.SCRIPT:
            for table in (
                "training.",
                "data.workers",
                "`checkpoint.",
                "distributed.strategy",
                "distributed.ddp",
            ):
                assert table not in text, (advice.title, table)
                assert "`[training]`" not in text, advice.title


def test_the_terminal_gets_commands_and_the_window_buttons(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/home/a/t.py", line 3, in f\nKeyError: 1'
    first = failure(rank=1, code=1, signal=None, message="KeyError: 1", traceback=trace)
    layout = failed_run(tmp_path, first)
    run_id = read_run(layout).id
    assert f"torchdeck runs clone {run_id}" in card(layout).advice.text
    assert "torchdeck runs" not in card(layout, Front.WINDOW).advice.text


def test_out_of_gpu_memory_comes_with_the_plans_nearest_cheaper_setting(tmp_path: Path) -> None:
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    layout = failed_run(tmp_path, failure(rank=1, code=1, signal=None, message=words, traceback=""))
    plain = card(layout).advice
    layout.plan.write_text('{"prediction": {"cheaper": ["training.microbatch = 4: 9 GiB", "bf16"]}}')
    found = card(layout).advice
    assert "nearest setting that needs less is training.microbatch = 4: 9 GiB. Or bf16." in found.text
    assert found.text.endswith(plain.text)
