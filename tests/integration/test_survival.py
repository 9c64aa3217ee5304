"""Kill, freeze and starve the processes of real training in turn: the run continues, or says what
happened.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import controllers
from support.cli.command import (
    Command,
    agent_events,
    identity_in,
    rank_process,
    wait_for_event,
    wait_for_step,
    wait_until_gone,
)
from support.system.small_disk import mounted
from support.training.held_training import hold
from support.training.training import Training, losses, uninterrupted
from support.waiting import wait_until
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.journal import read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity, processes_of_run


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    """A run whose controller, agent and shim were killed in turn, and which trained to its end."""
    folder = tmp_path_factory.mktemp("survivor")
    command = Command(folder / "home")
    gate = folder / "continue"
    file = hold(Training(folder / "work").write(0.0), step=5, gate=gate)
    with command.start("--no-gui", "--trust", file) as front:
        run = command.the_run()
        wait_for_step(run, 3)
        front.kill()
    controller = identity_in(read_journal(run.journal), "controller_started")
    assert controller.send(signal.SIGKILL)
    first_agent = identity_in(agent_events(run), "agent_started")
    assert first_agent.send(signal.SIGKILL)
    second_agent = wait_for_event(run, "agent_started", count=2)
    assert ProcessIdentity.from_json(second_agent.fields["identity"]) != first_agent
    assert second_agent.fields["adopted"] is True
    holder = ProcessIdentity.from_json(
        json.loads(run.attempt(1).node("localhost").holder.read_text())["holder"]
    )
    assert holder is not None
    assert holder.send(signal.SIGKILL)
    with command.start("runs", "attach", run.root.name) as attached:
        wait_until(lambda: len(controllers(run)) == 2, 60, "another controller")
        gate.touch()
        output, _ = attached.communicate(timeout=120)
    assert attached.returncode == 0, output
    return run


def test_run_survives_controller_agent_and_holder(survivor: RunLayout) -> None:
    """With controller, agent and shim killed in turn, training ends well with every loss there."""
    assert agent_events(survivor, "finished")[-1].fields["state"] == "SUCCEEDED"
    assert len(agent_events(survivor, "attempt_started")) == 1
    wait_until_gone(survivor)
    assert sorted(losses(survivor)) == list(range(1, 41))


@pytest.mark.soak  # a normal run compares it with one that was resumed, below
def test_losses_of_a_run_that_survives_are_those_of_one_left_alone(
    survivor: RunLayout, tmp_path: Path
) -> None:
    """Step for step."""
    assert losses(survivor) == losses(uninterrupted(Command(tmp_path / "home"), Training(tmp_path / "work")))


def test_power_cut_is_never_called_running(survivor: RunLayout, tmp_path: Path) -> None:
    """With every process of a run killed at one moment, the run is LOST or FAILED, and can be resumed.

    It then has the losses of a run whose ranks no one touched.
    """
    command = Command(tmp_path / "home")
    file = hold(Training(tmp_path / "work").write(0.05), step=15)
    with command.start("--no-gui", "--trust", file) as front:
        run = command.the_run()
        wait_for_step(run, 12)
        wait_for_event(run, "checkpoint")
        supervisors = [
            identity_in(read_journal(run.journal), "controller_started"),
            identity_in(agent_events(run), "agent_started"),
            ProcessIdentity.from_json(
                json.loads(run.attempt(1).node("localhost").holder.read_text())["holder"]
            ),
        ]
        front.kill()
        for process in supervisors:
            assert process is not None
            process.send(signal.SIGSTOP)
        for process in [*processes_of_run(run.root.name), *supervisors]:
            assert process is not None
            process.send(signal.SIGKILL)
        wait_until_gone(run)
    shown = command.json("runs", "show", run.root.name)
    assert shown["state"] in ("LOST", "FAILED")
    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert agent_events(run, "attempt_started")[-1].fields["resume_step"] == 10
    assert losses(run) == losses(survivor)


@pytest.mark.soak
def test_frozen_rank_is_flagged_by_name_and_forgiven(tmp_path: Path) -> None:
    """A rank under SIGSTOP is named with phase and step, in terminal and journal; SIGCONT clears it."""
    command = Command(tmp_path / "home")
    training_only = ("--set", "training.eval_every=1000", "--set", "checkpoint.every=1000")
    arguments = ("--no-gui", "--trust", "--set", "launch.hang_after=2", *training_only)
    with command.start(*arguments, Training(tmp_path / "work").write(0.1)) as front:
        run = command.the_run()
        wait_for_step(run, 5)
        frozen = rank_process(run, 1)
        frozen.send(signal.SIGSTOP)
        flagged = wait_for_event(run, "hang", 30).fields
        assert flagged["rank"] == 1
        assert flagged["phase"] == "training"
        assert "SIGSTOP" in flagged["detail"]
        frozen.send(signal.SIGCONT)
        wait_for_event(run, "hang_over", 30)
        output, _ = front.communicate(timeout=90)
    assert front.returncode == 0, output
    assert "rank 1" in output
    assert "SIGSTOP" in output


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB, where this machine lets us mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, "size=48m,mode=0700"):
        yield folder


def test_filling_disk_stops_the_run_with_a_checkpoint(
    small_disk: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """When the disk fills in mid-run, the run saves a checkpoint while there is room, stops and says why.

    It is not resumed until there is room; that it then continues to its end is for a soak.
    """
    command = Command(small_disk / "home")
    # far more steps than it gets to: until the disk is looked at may take a second or three
    training = Training(tmp_path / "work", steps=100, every=1000)
    arguments = ("--no-gui", "--trust", "--set", "limits.min_free_disk='16MiB'")
    with command.start(*arguments, training.write(0.15)) as front:
        run = command.the_run()
        wait_for_step(run, 5)
        (small_disk / "ballast").write_bytes(bytes(36 << 20))
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 1, output
    (finished,) = agent_events(run, "finished")
    assert finished.fields["state"] == "FAILED"
    assert finished.fields["resumable"] is True
    assert "disk" in finished.fields["why"]
    assert "disk" in output
    saved = newest_complete(run.checkpoints)
    assert saved is not None
    assert saved.step >= 5
    refused = command.run("runs", "resume", run.root.name)
    assert refused.returncode == 3, refused.stdout + refused.stderr
    if not request.config.getoption("--soak"):
        return
    (small_disk / "ballast").unlink()
    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert sorted(losses(run)) == list(range(1, 101))
