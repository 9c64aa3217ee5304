"""A failed run with output, and the output of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.histories import (
    controller_journal,
    ended,
    failure,
    finished,
    running_run,
)
from support.values.made_runs import make_run
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout

FAILED = [*running_run(), ended(1, "failed", failure(1)), finished("FAILED", why="rank 1 failed")]


OUTPUT = {
    (1, 0, "stdout"): "zero\nfirst\n",
    (1, 1, "stdout"): "one\n",
    (1, 1, "stderr"): "Traceback\n",
    (2, 0, "stdout"): "again",
}


@pytest.fixture
def failed(torchdeck_home: Path) -> RunLayout:
    return make_run(torchdeck_home, controller_journal(), FAILED, output=OUTPUT)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out
