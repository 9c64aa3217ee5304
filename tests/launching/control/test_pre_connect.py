"""A controller that is started before its run is there: real processes, real pipes."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.agent_run import make_plan, script
from support.agents.controlled_run import controllers, wait_until_over
from support.waiting import wait_until
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.launching.control.pre_connect import PreConnectingController, pre_connecting_controller
from torchdeck.launching.control.run_secrets import plan_secrets
from torchdeck.launching.launcher import LaunchError, LaunchRecord, create_run, start_run
from torchdeck.runs.folders.run_directory import shown

pytestmark = pytest.mark.processes

RECORD = LaunchRecord("# a test\n")


def identity(controller: PreConnectingController) -> ProcessIdentity:
    found = ProcessIdentity.of(controller._process.pid)
    assert found is not None
    return found


def hello(folder: Path) -> LaunchPlan:
    return make_plan(script(folder, "print('hello')"), folder)


@pytest.fixture
def waiting(home: Path) -> Iterator[PreConnectingController]:
    """One that has no nodes to connect to."""
    made = PreConnectingController(home, frozenset({"THE_KEY"}))
    made.connect([])
    yield made
    made.close()


def test_it_controls_the_run_that_it_is_handed(
    home: Path, tmp_path: Path, waiting: PreConnectingController
) -> None:
    """No other controller is started; its session is its own, and it writes into the run's log."""
    process = identity(waiting)
    assert os.getsid(process.pid) == process.pid
    layout, controller = start_run(hello(tmp_path), RECORD, home, controller=waiting)
    waiting.close()
    assert wait_until_over(layout).state == "SUCCEEDED"
    assert controllers(layout) == [process]
    assert layout.controller_log.stat().st_mode & 0o777 == 0o600
    wait_until(lambda: controller.exit_code() == 0, 20, "the controller to end")


def test_one_without_a_run_ends_and_has_written_nothing(home: Path) -> None:
    """Closed, as after a check that failed; or its front end was killed, with which the pipe ends."""
    before = sorted(home.rglob("*"))
    config = config_from_dict({"run": {"script": "x.py"}}, home, ())
    with pre_connecting_controller(config, home) as closed:
        assert closed is not None
        closed.connect(["no such node"])
        process = identity(closed)
    assert not process.is_alive()
    orphan = PreConnectingController(home, frozenset())
    os.close(orphan._pipe)
    wait_until(lambda: orphan._process.exit_code() == 0, 20, "it to end by itself")
    assert sorted(home.rglob("*")) == before


def test_one_that_has_died_is_replaced(home: Path, tmp_path: Path, waiting: PreConnectingController) -> None:
    """The run gets another controller, started the ordinary way."""
    process = identity(waiting)
    process.send(signal.SIGKILL)
    wait_until(lambda: not process.is_alive(), 10, "it to be dead")
    layout, controller = start_run(hello(tmp_path), RECORD, home, controller=waiting)
    assert controller.pid != process.pid
    assert wait_until_over(layout).state == "SUCCEEDED"


@pytest.mark.parametrize("hidden", ["THE_KEY", "ANOTHER"])
def test_secrets_come_by_the_pipe_alone(
    hidden: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller with a secret in its environment, which the config did not name, gets no run."""
    monkeypatch.setenv("THE_KEY", "canary")
    shows = "import os, pathlib; pathlib.Path('seen').write_text(os.environ['THE_KEY'])"
    made = make_plan(script(tmp_path, shows), tmp_path)
    plan = dataclasses.replace(
        made, nodes=tuple(dataclasses.replace(node, secrets=("THE_KEY",)) for node in made.nodes)
    )
    waiting = PreConnectingController(home, frozenset({hidden}))
    waiting.connect([])
    process = identity(waiting)
    # empty while it is being started
    environ = wait_until(Path(f"/proc/{process.pid}/environ").read_bytes, 10, "its environment")
    assert (b"canary" in environ) == (hidden != "THE_KEY")
    layout, controller = start_run(plan, RECORD, home, controller=waiting)
    waiting.close()
    assert (controller.pid == process.pid) == (hidden == "THE_KEY")
    assert wait_until_over(layout).state == "SUCCEEDED"
    assert (Path(made.nodes[0].working_dir) / "seen").read_text() == "canary"
    for path in layout.root.rglob("*"):
        assert path.name == "seen" or not path.is_file() or b"canary" not in path.read_bytes(), path


def test_a_run_that_is_not_made_ends_its_controller(
    home: Path, tmp_path: Path, waiting: PreConnectingController
) -> None:
    """The front end died, or its disk was full, between handing over and the directory's name."""

    def fail(hidden: RunLayout) -> None:
        secrets = plan_secrets(plan, {}, tmp_path, required=False)
        assert waiting.hand_over(shown(hidden), secrets, {}) is not None
        raise LaunchError("no")

    plan, process = hello(tmp_path), identity(waiting)
    with pytest.raises(LaunchError, match="no"):
        create_run(plan, RECORD, home, before_shown=fail)
    wait_until(lambda: not process.is_alive() or waiting._process.exit_code() == 0, 30, "it to end")
    assert not list((home / "runs").iterdir())
