"""Stop, damage, kill and resume real two-rank training, and compare bit for bit with a run left alone."""

import signal
from pathlib import Path

import pytest

from support.cli.command import (
    Command,
    agent_events,
    interrupt,
    rank_process,
    wait_for_event,
    wait_for_step,
    wait_until_gone,
)
from support.training.held_training import hold
from support.training.training import Training, assert_same_state, final_state, losses, uninterrupted
from support.values.audits import assert_exactly_once, audit_of
from torchdeck.contract.checkpoints.listing import list_checkpoints
from torchdeck.contract.layout import RunLayout

PACE = 0.15
TRIED = (("ddp", "fp32"), ("fsdp", "bf16"))
"""Under --soak: the other tests here have ddp, tests/distributed/training/test_exact_resume.py has fsdp."""


@pytest.fixture(scope="module")
def reference(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, RunLayout]:
    """Runs that no one touched, by strategy."""
    runs = {}
    for strategy, precision in TRIED if request.config.getoption("--soak") else TRIED[:1]:
        folder = tmp_path_factory.mktemp(f"reference-{strategy}")
        training = Training(folder, strategy=strategy, precision=precision)
        runs[strategy] = uninterrupted(Command(folder / "home"), training)
    return runs


@pytest.mark.soak
@pytest.mark.parametrize(("strategy", "precision"), TRIED)
def test_stopped_and_resumed_run_is_bit_exact(
    strategy: str, precision: str, reference: dict[str, RunLayout], tmp_path: Path
) -> None:
    """A run stopped by Ctrl-C and resumed has the losses and the final weights of one that was left alone."""
    command = Command(tmp_path / "home")
    training = Training(tmp_path / "work", strategy=strategy, precision=precision)
    with command.start("--no-gui", "--trust", training.write(PACE)) as front:
        run = command.the_run()
        wait_for_step(run, 12)
        interrupt(front)
        output, _ = front.communicate(timeout=60)
        assert front.returncode == 130, output
    (finished,) = agent_events(run, "finished")
    assert finished.fields["state"] == "CANCELLED"
    assert finished.fields["resumable"] is True
    stopped_at = max(losses(run))
    assert 12 <= stopped_at < 40
    wait_until_gone(run)

    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    started = agent_events(run, "attempt_started")
    assert [event.fields["resume_step"] for event in started] == [None, stopped_at]
    assert losses(run) == losses(reference[strategy])
    assert losses(run, "validation_loss") == losses(reference[strategy], "validation_loss")
    assert_same_state(final_state(run, tmp_path), final_state(reference[strategy], tmp_path))


@pytest.mark.soak  # on ranks by themselves: tests/distributed/checkpoints
def test_damaged_checkpoint_is_refused_and_the_one_before_is_used(
    reference: dict[str, RunLayout], tmp_path: Path
) -> None:
    """One flipped byte in the newest checkpoint sends the resume to the one before, and it says so."""
    command = Command(tmp_path / "home")
    training = Training(tmp_path / "work")
    with command.start("--no-gui", "--trust", training.write(PACE)) as front:
        run = command.the_run()
        wait_for_step(run, 12)
        stop = command.run("runs", "stop", run.root.name)
        assert stop.returncode == 0, stop.stdout + stop.stderr
        front.communicate(timeout=60)
    *_, before, newest = list_checkpoints(run.checkpoints)
    assert before.step < newest.step
    data = max((path for path in newest.path.rglob("*.distcp")), key=lambda path: path.stat().st_size)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)

    verified = command.run("ckpt", "verify", run.root.name)
    assert verified.returncode == 1
    assert data.name in verified.stdout + verified.stderr
    resumed = command.run("runs", "resume", run.root.name)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert agent_events(run, "attempt_started")[-1].fields["resume_step"] == before.step
    assert newest.path.name in resumed.stdout + resumed.stderr
    assert losses(run) == losses(reference["ddp"])
    assert_same_state(final_state(run, tmp_path), final_state(reference["ddp"], tmp_path))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, RunLayout, str]:
    """A run one of whose ranks was killed, restarted and trained to its end, and what it printed."""
    folder = tmp_path_factory.mktemp("killed")
    command = Command(folder / "home")
    training = Training(folder / "work", memory="refuse")
    arguments = ("--no-gui", "--trust", "--set", "launch.max_restarts=1", "--set", "launch.restart_delay=0.2")
    with command.start(*arguments, hold(training.write(0.05), step=15)) as front:
        run = command.the_run(90)  # the model is traced first
        wait_for_step(run, 13)  # once a second: without the hold, the next checkpoint may be there by then
        wait_for_event(run, "checkpoint")
        rank_process(run, 1).send(signal.SIGKILL)
        output, _ = front.communicate(timeout=120)
        assert front.returncode == 0, output
    return command, run, output


def test_killed_rank_is_named_and_the_gang_restarts_from_the_newest_checkpoint(
    reference: dict[str, RunLayout], killed: tuple[Command, RunLayout, str], tmp_path: Path
) -> None:
    """A killed rank is named with its signal, all start again from the last checkpoint, to the same end."""
    _, run, _ = killed
    failed = wait_for_event(run, "attempt_ended").fields
    assert failed["outcome"] == "failed"
    assert failed["first_failure"]["rank"] == 1
    assert failed["first_failure"]["signal"] in ("SIGKILL", 9)
    assert [event.fields["resume_step"] for event in agent_events(run, "attempt_started")] == [None, 10]
    assert losses(run) == losses(reference["ddp"])
    assert_same_state(final_state(run, tmp_path), final_state(reference["ddp"], tmp_path))


def test_a_killed_and_restarted_run_is_as_planned(killed: tuple[Command, RunLayout, str]) -> None:
    """After a restart the steps that were done again count once; all of it is as plan.json predicts."""
    command, run, output = killed
    audit = audit_of(command, run)
    assert_exactly_once(audit, steps=40, samples=320, epochs=1)
    assert audit["samples"]["discarded_steps"] >= 2
    assert audit["predicted_steps"] == 40
    assert all(rank["predicted_memory_bytes"] > 0 for rank in audit["ranks"])
    wanted = "samples: 320 as planned in steps 1 to 40; 1 whole epoch, each sample once; "
    assert wanted in output
    shown = command.run("runs", "show", run.root.name).stdout
    assert wanted in shown
    assert "predicted | measured" in shown
    assert "DEFECT" not in output + shown


@pytest.mark.soak  # on ranks without a launcher around them: tests/distributed/training/test_equivalence.py
def test_world_size_one_and_two_see_the_same_loss_curve(
    reference: dict[str, RunLayout], tmp_path: Path
) -> None:
    """One rank with two microbatches a step has the losses of two ranks with one, to float tolerance."""
    command = Command(tmp_path / "home")
    training = Training(tmp_path / "work", strategy="single", nproc=1)
    two = Training(tmp_path / "work2")
    quiet = ("--set", "model.dropout=0.0")
    one = uninterrupted(command, training, "--set", "training.accumulation=2", *quiet)
    both = uninterrupted(command, two, *quiet)
    assert losses(one).keys() == losses(both).keys()
    for step, value in losses(one).items():
        assert value == pytest.approx(losses(both)[step], rel=1e-5)
