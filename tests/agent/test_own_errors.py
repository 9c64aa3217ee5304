"""An agent that ends by an error in its own code: the run's view names it, and another agent continues."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.agents.agent_run import CORE, Maker
from support.agents.agent_scripts import WAITING
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

FAULT = """
_beat = Heartbeat.beat


def _faulty(self, **fields):
    if (self._path.parents[2] / "broken").exists():
        raise RuntimeError("a heartbeat that cannot be")
    _beat(self, **fields)


Heartbeat.beat = _faulty
"""


UNPREPARED = """

def prepare_attempt(*_):
    raise RuntimeError("a plan that cannot be")
"""


def faulty_core(folder: Path, module: str = "heartbeat.py", fault: str = FAULT) -> Path:
    """Torchdeck's code with an agent that fails once its run has a file `broken`, or with another fault."""
    package = folder / "torchdeck"
    package.mkdir(parents=True)
    for part in (CORE / "torchdeck").iterdir():
        if part.name != "agent":
            (package / part.name).symlink_to(part)
    shutil.copytree(CORE / "torchdeck/agent", package / "agent")
    with (package / "agent" / module).open("a") as file:
        file.write(fault)
    return folder


def test_an_agents_own_error_is_named_and_another_goes_on(make_run: Maker, tmp_path: Path) -> None:
    """While the run continues it is a warning; the traceback is in the agent's log."""
    run = make_run(WAITING).start(core=faulty_core(tmp_path / "faulty"))
    run.wait("running")
    (run.layout.root / "broken").touch()
    error = run.wait("agent_failed").fields["error"]
    (run.layout.root / "broken").unlink()
    assert error.startswith("RuntimeError: a heartbeat that cannot be (heartbeat.py, line ")
    wait_until(lambda: run.events("agent_started")[-1].fields["adopted"], 30, "another agent")
    assert any("the agent on localhost ended by an error" in line for line in read_run(run.layout).warnings)
    assert "Traceback (most recent call last)" in run.node.log.read_text()
    run.request("stop_now")
    assert run.finished()["state"] == "CANCELLED"


def test_an_attempt_that_an_own_error_keeps_from_being_prepared_says_so(
    make_run: Maker, tmp_path: Path
) -> None:
    core = faulty_core(tmp_path / "faulty", "attempt/preparation.py", UNPREPARED)
    run = make_run(WAITING).start(core=core)
    finished = run.finished()
    assert finished["state"] == "FAILED"
    assert "an error of Torchdeck itself: RuntimeError: a plan that cannot be" in finished["why"]
    assert "preparation.py" in run.node.log.read_text()
