"""What `torchdeck runs show` prints of ranks on a node that does not answer."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from support.values.histories import created, event, running_run
from support.values.made_runs import line, make_run
from torchdeck.cli.main import main
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.runs.links import LOST, LinkState, write_links


def test_ranks_of_a_node_that_died_are_not_said_to_make_progress_now(
    torchdeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node has not answered for 102 s; what its ranks said last is as old."""
    here = ProcessIdentity.of(os.getpid())
    assert here is not None
    controller = event("controller_started", 100.1, identity=here.to_json(), epoch=1)
    layout = make_run(torchdeck_home, [created(), controller])
    node = layout.node("gpu3")
    node.root.mkdir()
    node.journal.write_text("".join(map(line, running_run())))
    died = time.time() - 102
    ranks = {"1": {"phase": "training", "step": 840, "still": 0.0}}
    node.heartbeat.write_text(json.dumps({"v": 1, "t": died, "attempt": 1, "ranks": ranks}))
    write_links(layout, {"gpu3": LinkState("gpu3", LOST, since=died, heard=died, why="silent")}, time.time())
    assert main(["runs", "show", "latest"]) == 0
    shown = capsys.readouterr().out
    (said,) = re.findall(r"rank 1: training step 840, last progress (\d+) s ago", shown)
    assert 102 <= int(said) < 112
    assert "last progress 0 s ago" not in shown
    (lost,) = re.findall(r"node gpu3: .*?(\d+) s ago", shown)[:1]
    assert 102 <= int(lost) < 112
