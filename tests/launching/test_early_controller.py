"""A controller that is started before its run is there: real processes, real pipes."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.agent_run import make_plan, script
from support.command import Command
from support.controlled_run import controllers, wait_until_over
from support.early_controllers import early_ones, wait_early, wait_no_early
from support.open_files import open_files
from support.silent_node import launch_arguments, port_of, silent_host
from support.waiting import wait_until
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import RUN_ID_VARIABLE
from torchdeck.launching.control.early_controller import EarlyController, early_controller
from torchdeck.launching.control.run_secrets import plan_secrets
from torchdeck.launching.launcher import LaunchRecord, create_run, start_run

INTENT = LaunchRecord("# a test\n")


def hello(folder: Path) -> LaunchPlan:
    return make_plan(script(folder, "print('hello')"), folder)


@pytest.fixture
def early(home: Path) -> Iterator[EarlyController]:
    made = EarlyController(home, frozenset({"THE_KEY"}))
    yield made
    made.dismiss()


def test_it_carries_out_the_run_that_it_is_handed(home: Path, tmp_path: Path, early: EarlyController) -> None:
    """There is one controller, the early one, in a session of its own, and it writes into the run's log."""
    process = wait_early(home)
    assert os.getsid(process.pid) == process.pid
    layout, controller = start_run(hello(tmp_path), INTENT, home, early=early)
    assert controller.pid == process.pid
    assert wait_until_over(layout).state == "SUCCEEDED"
    assert controllers(layout) == [process]
    assert layout.controller_log.stat().st_mode & 0o777 == 0o600
    wait_until(lambda: controller.exit_code() == 0, 20, "the controller to end")


def test_dismissed_it_is_gone_and_has_written_nothing(home: Path, early: EarlyController) -> None:
    """Whether it was loading or waiting."""
    wait_early(home)
    before = sorted(home.rglob("*"))
    early.dismiss()
    assert not early_ones(home)
    early.dismiss()
    assert sorted(home.rglob("*")) == before


def test_one_that_has_died_is_replaced(home: Path, tmp_path: Path, early: EarlyController) -> None:
    """The run gets another controller, started the ordinary way."""
    process = wait_early(home)
    process.send(signal.SIGKILL)
    wait_until(lambda: not process.is_alive(), 10, "it to be dead")
    layout, controller = start_run(hello(tmp_path), INTENT, home, early=early)
    assert controller.pid != process.pid
    assert wait_until_over(layout).state == "SUCCEEDED"


def test_secrets_come_by_the_pipe_alone(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment lacks what the config names; a run that names more has a controller of its own."""
    canary = "canary-" + os.urandom(8).hex()
    monkeypatch.setenv("THE_KEY", canary)
    shows = "import os, pathlib; pathlib.Path('seen').write_text(os.environ['THE_KEY'])"
    plan = with_secret(make_plan(script(tmp_path, shows), tmp_path))
    for hidden in ({"THE_KEY"}, {"ANOTHER"}):
        early = EarlyController(home, frozenset(hidden))
        try:
            process = wait_early(home)
            in_environment = canary.encode() in Path(f"/proc/{process.pid}/environ").read_bytes()
            assert in_environment == ("THE_KEY" not in hidden)
            layout, controller = start_run(plan, INTENT, home, early=early)
            assert (controller.pid == process.pid) == ("THE_KEY" in hidden)
            assert wait_until_over(layout).state == "SUCCEEDED"
            assert (tmp_path / "seen").read_text() == canary
        finally:
            early.dismiss()
        wait_no_early(home)


def with_secret(plan: LaunchPlan) -> LaunchPlan:
    nodes = tuple(dataclasses.replace(node, secrets=("THE_KEY",)) for node in plan.nodes)
    return dataclasses.replace(plan, nodes=nodes)


@pytest.mark.parametrize("is_there", [True, False])
def test_front_end_that_dies_after_the_order_leaves_a_run_or_nothing(
    home: Path, tmp_path: Path, *, is_there: bool
) -> None:
    """Where the run's directory had got its name, the run goes on; else nothing of it ever begins."""
    plan = hello(tmp_path)
    secrets = plan_secrets(plan, {}, required=True)
    made: list[RunLayout] = []

    def front_end() -> None:
        early = EarlyController(home, frozenset())

        def die(layout: RunLayout) -> None:
            early.entrust(layout, secrets, None)
            if not is_there:
                os._exit(0)

        create_run(plan, INTENT, home, before_shown=die)

    child = os.fork()
    if not child:
        try:
            front_end()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    made += [RunLayout(path) for path in (home / "runs").glob("[!.]*")]
    assert len(made) == is_there
    if is_there:
        assert wait_until_over(made[0]).state == "SUCCEEDED"
    wait_no_early(home)
    assert len(list((home / "runs").glob("[!.]*"))) == is_there


def test_only_runs_on_other_machines_have_one(home: Path, tmp_path: Path) -> None:
    """Here alone there is nothing to wait for meanwhile; and after the block none is left."""
    (tmp_path / "train.py").touch()
    for nodes, wanted in ((["localhost"], 0), (["elsewhere"], 1)):
        table = {"run": {"script": "train.py"}, "distributed": {"nodes": nodes}}
        with early_controller(config_from_dict(table, tmp_path), home) as early:
            assert (early is not None) == bool(wanted)
            if wanted:
                wait_early(home)
            assert len(early_ones(home)) == wanted
        assert not early_ones(home)


def test_it_ends_with_its_front_end(home: Path, tmp_path: Path) -> None:
    """Killed while it waits for a node; nothing of a run is there."""
    with (
        silent_host() as server,
        Command(home).start("--no-gui", *launch_arguments(home, tmp_path, port_of(server))) as front,
    ):
        wait_early(home)
        front.kill()
        front.wait(10)
        wait_no_early(home)
    assert not list(home.glob("runs/*"))


def test_a_refused_launch_and_a_plan_leave_none(home: Path, tmp_path: Path) -> None:
    """Neither does `plan` start one at all."""
    arguments = launch_arguments(home, tmp_path, 1)
    command = Command(home)
    assert command.run("--no-gui", *arguments).returncode in (2, 3)
    assert not early_ones(home)
    with command.start("plan", *arguments) as front:
        wait_until(lambda: early_ones(home) or front.poll() is not None, 60, "the plan's end")
        assert front.poll() is not None


COPY = """
import sys, time
from pathlib import Path
from torchdeck.launching.control.early_controller import EarlyController

home = Path(sys.argv[1])
early = EarlyController(home, frozenset(sys.argv[2:]), copied=True)
print(early._process.pid, flush=True)
sys.stdin.readline()
early.dismiss()
print("dismissed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("variables", [{}, {"THE_KEY": "a canary"}, {RUN_ID_VARIABLE: "a canary"}])
def test_it_is_a_copy_of_a_front_end_that_has_done_nothing_yet(
    home: Path, variables: Mapping[str, str]
) -> None:
    """With nothing of the other's; another program where a copy's environment would show what it must not.

    That is a secret, and the run that the front end itself is part of, with whose end it would be ended.
    """
    argv = [sys.executable, "-c", COPY, str(home), "THE_KEY"]
    env = {**os.environ, **variables, "TORCHDECK_HOME": str(home)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as front:
        assert front.stdout is not None
        assert front.stdin is not None
        pid = int(front.stdout.readline())
        process = wait_early(home)
        assert process.pid == pid
        assert os.getsid(pid) == pid
        copied = b"-c" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert copied == (not variables)
        assert b"a canary" not in Path(f"/proc/{pid}/environ").read_bytes()
        pipes = {Path(f"/proc/{front.pid}/fd/{place}").readlink() for place in (0, 1)}
        assert not pipes & open_files(pid)
        front.stdin.write("\n")
        front.stdin.flush()
        assert front.stdout.readline() == "dismissed\n"
        assert not early_ones(home)
        front.stdin.write("\n")
        front.stdin.flush()
        assert front.wait(20) == 0


def test_names_of_very_many_nodes_leave_room_for_the_order(
    home: Path, tmp_path: Path, early: EarlyController
) -> None:
    """Those that would not fit are left out, and what is named after the order is nobody's concern."""
    process = wait_early(home)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        for number in range(1_000):
            early.name(f"node-of-a-long-name-{number}")
        plan = hello(tmp_path)
        layout = create_run(plan, INTENT, home)
        early.entrust(layout, plan_secrets(plan, {}, required=True), None)
        early.name("too-late")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    controller = early.begin()
    assert controller is not None
    assert controller.pid == process.pid
    assert wait_until_over(layout).state == "SUCCEEDED"
