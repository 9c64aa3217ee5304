"""Goodput of a real run that fails once, and repeats steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.agents.agent_run import AgentRun, cleaning, make_plan, script, with_policy
from torchdeck.contract.journal import JournalWriter
from torchdeck.runs.follower import read_run
from torchdeck.runs.goodput.reading import read_goodput
from torchdeck.runs.goodput.uses import Use

pytestmark = pytest.mark.processes

REPEATS = """
    import json, os, pathlib, sys, time
    import torchdeck
    first = os.environ["TORCHDECK_ATTEMPT"] == "1"
    done = 0 if first else 20
    for step in range(done + 1, 41):
        time.sleep(0.05)
        torchdeck.log({"loss": 1.0}, step=step)
        if step == done + 1:
            begun = time.time() - 0.05  # the first row opens files
        if step == 30 and first:
            break
        if step == 30:
            pathlib.Path("again").write_text(json.dumps([begun, time.time()]))
    pathlib.Path("end" + os.environ["TORCHDECK_ATTEMPT"]).write_text(json.dumps([begun, time.time()]))
    sys.exit(1 if first else 0)
    """
TOLERANCE = 0.2
"""Seconds: writing rows, and reading the clock around them."""


def test_the_shares_of_restart_and_repeated_steps_are_those_that_the_program_measured(tmp_path: Path) -> None:
    """Ten steps are done twice; the run pauses for a second between the attempts."""
    policy = with_policy(max_restarts=1, restart_delay=1.0)
    run = AgentRun(tmp_path / "home", make_plan(script(tmp_path, REPEATS), tmp_path, nproc=1, policy=policy))
    with JournalWriter(run.layout.journal) as journal:
        journal.append("created", run_id=run.layout.root.name, name="test", world_size=1, kind="script")
    with cleaning([run]):
        run.start()
        assert run.finished()["state"] == "SUCCEEDED"
    found = read_goodput(run.layout, read_run(run.layout))
    assert found is not None
    ends = [json.loads((tmp_path / name).read_text()) for name in ("end1", "again", "end2")]
    (began, failed), (again, caught_up), (_, ended) = ends
    assert sum(found.share(use) for use in Use) == pytest.approx(1.0)
    assert found.seconds[Use.RECOMPUTE] == pytest.approx(caught_up - again, abs=TOLERANCE)
    assert found.seconds[Use.RESTART] == pytest.approx(again - failed, abs=TOLERANCE)
    assert found.seconds[Use.PRODUCTIVE] == pytest.approx(failed - began + ended - caught_up, abs=TOLERANCE)
    view = read_run(run.layout)
    assert view.created is not None
    assert view.ended is not None
    assert found.wall == pytest.approx(view.ended - view.created, abs=0.5)
