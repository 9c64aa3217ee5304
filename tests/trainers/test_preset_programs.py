"""Presets with programs of other trainers run as they are written, with the real packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

from support.cli.command import Command, agent_events, wait_for_step
from support.system.trainers_python import ABSENT, trainers_python
from support.training.live_progress import live_progress
from torchdeck.contract.metrics.progress import read_progress
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import ProgressReader

pytestmark = [
    pytest.mark.timeout(480),  # trainings on two ranks, with their imports
    pytest.mark.processes,
    pytest.mark.skipif(trainers_python() is None, reason=ABSENT),
]


class Expected(NamedTuple):
    """A short run of a preset, and what is known of it at its end."""

    program: str
    arguments: tuple[str, ...]
    step: int
    checkpoint: str
    stops: bool = False
    """It is stopped, and resumed to its end."""
    ranks: int = 2


PRESETS = {
    "hf-sft": Expected(
        "TRL (SFT)",
        ("--output_dir", "outputs", "--max_steps", "40", "--save_steps", "4", "--logging_steps", "2"),
        40,
        "checkpoint-4",
        stops=True,
    ),
    "hf-lora": Expected(
        "TRL with PEFT (LoRA)",
        ("--lora_rank", "4", "--output_dir", "outputs", "--max_steps", "40", "--save_steps", "4"),
        40,
        "checkpoint-4",
        stops=True,
        ranks=1,  # of two: hf-sft, which is the same program
    ),
    "lightning": Expected(
        "Lightning",
        ("--epochs", "2", "--devices", "2", "--batch-size", "256"),
        16,
        "epoch=1-step=16.ckpt",
        stops=True,
    ),
    "accelerate": Expected(
        "accelerate", ("--steps", "40", "--checkpointing_steps", "4"), 40, "checkpoint-4", stops=True
    ),
}
"""nanoGPT is in test_restarted_curves.py: it saves nothing at a stop."""
SHOWN = ("starts", "metrics", "steps", "total and ETA", "checkpoints", "failure named")


PACE = """
    import os, time
    from torch.optim.optimizer import register_optimizer_step_post_hook
    steps = []
    def pace(*_):
        steps.append(1)
        time.sleep((0.3 if len(steps) < 10 else 2) if os.path.exists("slow") else 0)
    register_optimizer_step_post_hook(pace)
"""
"""Put at its begin. Later steps are slower, so that a busy machine stops it before its end, too."""
FAILS = """
    import os
    if os.path.exists("fails") and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        raise RuntimeError("broken here")
"""
"""Put at the end of a preset, which has trained then."""


def presets() -> list[ParameterSet]:
    stopped = ("stop saves", "resume")
    return [
        pytest.param(
            name,
            marks=[
                pytest.mark.shows(each.program, *SHOWN, *(stopped if each.stops else ())),
                # test_resumed_curves.py stops and resumes the Trainer on which TRL is built
                *([pytest.mark.soak] if name in ("hf-sft", "hf-lora") else []),
            ],
        )
        for name, each in PRESETS.items()
    ]


@pytest.fixture
def command(torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Command(torchdeck_home)


def words(folder: Path, **choices: str) -> list[str | Path]:
    """Words of a command that runs the preset in `folder` with the training packages' Python."""
    given = {"run.interpreter": str(trainers_python()), "launch.max_restarts": "0", **choices}
    sets = [word for key, value in given.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
    return ["--no-gui", "--trust", folder / "run.toml", *sets]


def made(command: Command, preset: str, folder: Path) -> Path:
    """Write the preset; it is slow while there is a file `slow`, and fails at its end if there is `fails`."""
    assert command.run("init", "--preset", preset, folder).returncode == 0
    (script,) = folder.glob("*.py")
    text = script.read_text().replace("def main() -> None:\n", f"def main() -> None:{PACE}")
    script.write_text(text.removesuffix("\n") + FAILS)
    (folder / "slow").touch()
    return script


def seen(command: Command, folder: Path, total: int, **choices: str) -> tuple[int, str]:
    """Run the preset in `folder` to its end; while it runs, its total and time left are known."""
    with command.start(*words(folder, **choices)) as front:
        wait_for_step(command.the_run(), 3, 90)
        live_progress(command)
        (folder / "fails").touch()
        (folder / "slow").unlink()
        output, _ = front.communicate(timeout=120)
    return front.returncode, output


def stopped_and_resumed(command: Command, folder: Path, total: int, **choices: str) -> tuple[int, str]:
    """Stop the preset in `folder` after its first checkpoint; it resumes from its last step."""
    with command.start(*words(folder, **choices)) as front:
        run = command.the_run()
        wait_for_step(run, 6, 90)
        live_progress(command)
        stopped = command.run("runs", "stop", run.root.name)
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        front.communicate(timeout=60)
    assert read_run(run).state is RunState.CANCELLED
    (folder / "fails").touch()
    (folder / "slow").unlink()
    done = command.run("runs", "resume", run.root.name, timeout=120)
    rank = run.attempt(1).rank(0)
    last = read_progress(rank.progress) or read_progress(rank.counted)
    assert last is not None
    assert 6 <= last.step < total
    assert agent_events(run, "attempt_started")[1].fields["resume_step"] == last.step
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("preset", presets())
def test_preset_trains_and_all_of_it_is_known(preset: str, command: Command, tmp_path: Path) -> None:
    """Step, total, time left, a loss, and its checkpoints, whatever the program calls them.

    At the end the last rank fails: it is named, with the user's own file and line.
    """
    expected = PRESETS[preset]
    script = made(command, preset, tmp_path)
    trained = stopped_and_resumed if expected.stops else seen
    sets = {"run.args": json.dumps(expected.arguments), "distributed.nproc": str(expected.ranks)}
    code, output = trained(command, tmp_path, expected.step, **sets)
    assert code == 1, output
    run = command.the_run()
    view = read_run(run)
    progress = ProgressReader(run).read(view)
    assert progress is not None
    assert (progress.step, progress.total) == (expected.step, expected.step)
    assert progress.loss is not None
    assert 0 < progress.loss < 100
    listed = command.json("ckpt", "list", run.root.name)
    assert expected.checkpoint in [row["name"] for row in listed], listed
    assert view.state is RunState.FAILED
    failure = view.first_failure
    assert failure is not None
    assert (failure.rank, failure.message) == (expected.ranks - 1, "RuntimeError: broken here")
    line = script.read_text().count("\n")
    assert f'File "{script}", line {line}, in <module>' in failure.traceback


@pytest.mark.soak  # its files, lines and loop are in files/, text/ and inside/
def test_torchtitan_prepares_its_data_and_wants_a_gpu(command: Command, tmp_path: Path) -> None:
    """Its trainer needs CUDA from its first lines on; all before them runs here."""
    assert command.run("init", "--preset", "torchtitan", tmp_path).returncode == 0
    done = command.run(*words(tmp_path, distributed__devices="cpu", distributed__nproc="1"))
    assert done.returncode == 1
    assert "cuda" in done.stdout.lower()
    failure = read_run(command.the_run()).first_failure
    assert failure is not None
    assert failure.rank == 0
    assert "cuda" in failure.message.lower()
    assert 'torchtitan/trainer.py", line' in failure.traceback
    assert (tmp_path / "tests/assets/tokenizer/tokenizer.json").is_file()
