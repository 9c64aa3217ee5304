"""Files are dated by another clock than the node's where a file server has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hosts.hosts import FAKETIME
from torchdeck.agent.ranks.failures import files_ahead, rank_failure
from torchdeck.contract.layout import AttemptLayout

ASK = "import sys; from pathlib import Path; from torchdeck.agent.ranks.failures import files_ahead; "
ASK += "print(files_ahead(Path(sys.argv[1])))"


def test_files_of_this_machine_have_its_clock(tmp_path: Path) -> None:
    """No difference, and nothing is left; where no file can be made there is none either."""
    assert files_ahead(tmp_path) == 0.0
    assert list(tmp_path.iterdir()) == []
    assert files_ahead(tmp_path / "none") == 0.0


@pytest.mark.processes
@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed")
@pytest.mark.parametrize("seconds", [100.0, -7.5])
def test_a_clock_that_files_do_not_have_is_measured(tmp_path: Path, seconds: float) -> None:
    """With the node's clock `seconds` ahead (libfaketime) files lie as far behind it."""
    environ = {
        **os.environ, "LD_PRELOAD": str(FAKETIME[0]), "FAKETIME": f"{seconds:+f}", "NO_FAKE_STAT": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(tmp_path)],
        env=environ, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert float(done.stdout) == pytest.approx(-seconds, abs=0.5)


def test_a_failure_is_told_by_the_nodes_clock(tmp_path: Path) -> None:
    """Its files are dated by the server's."""
    rank = AttemptLayout(tmp_path).rank(0)
    rank.root.mkdir(parents=True)
    rank.exit.write_text("3\n")
    os.utime(rank.exit, (1000.0, 1000.0))
    failure = rank_failure(rank, 0, ahead=-40.0)
    assert failure is not None
    assert failure.time == 1040.0
    assert failure.error > 0.0
