"""Launchers of other projects as the plain process of a run: the ranks that they start are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.command import Command
from support.system.deepspeed_python import ABSENT as NO_DEEPSPEED
from support.system.deepspeed_python import deepspeed_python
from support.system.free_port import free_port
from support.system.trainers_python import ABSENT, trainers_python
from support.training.inside_scripts import ending
from support.training.loop_scripts import DEEPSPEED
from support.waiting import wait_until
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_state import RunState
from torchdeck.runs.training_progress import ProgressReader

pytestmark = [pytest.mark.processes, pytest.mark.timeout(480)]  # trainings on two ranks, with their imports

HOLDS = """
    import time
    while os.path.exists("hold"):
        time.sleep(0.05)
"""
"""Put at the begin of a program, until the test has seen its ranks."""


def launched(command: Command, folder: Path, python: str, module: str, *args: str) -> None:
    """Run a launcher to its end; both of its ranks are found while they run."""
    file = folder / "run.toml"
    file.write_text(
        f'[run]\nmodule = "{module}"\nargs = {list(args)}\nlauncher = "python"\ninterpreter = "{python}"\n'
        '[run.env]\nOMP_NUM_THREADS = "1"\nDS_ACCELERATOR = "cpu"\n'
    )
    (folder / "hold").touch()
    with command.start("--no-gui", "--trust", file) as front:
        run = command.the_run()
        wait_until(lambda: len(read_run(run).found_ranks) == 2, 90, "the ranks of the launcher")
        assert [rank for rank, _ in read_run(run).found_ranks] == [0, 1]
        (folder / "hold").unlink()
        output, _ = front.communicate(timeout=120)
    assert front.returncode == 0, output
    view = read_run(run)
    assert view.state is RunState.SUCCEEDED
    progress = ProgressReader(run).read(view)
    assert progress is not None
    assert progress.total == 6
    assert progress.loss is not None


@pytest.mark.soak  # tests/integration/test_plain_process.py finds ranks by their variables
def test_accelerate_launch(tmp_path: Path, torchdeck_home: Path) -> None:
    """With the loop of the preset."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    command = Command(torchdeck_home)
    assert command.run("init", "--preset", "accelerate", tmp_path).returncode == 0
    script = tmp_path / "accelerate_train.py"
    script.write_text(
        script.read_text().replace("def main() -> None:\n", f"def main() -> None:\n    import os{HOLDS}")
    )
    launch = [
        *("--multi_gpu", "--num_processes=2", "--num_machines=1", "--main_process_port=0"),
        *("--mixed_precision=no", "--dynamo_backend=no", script.name),
    ]
    launched(command, tmp_path, str(python), "accelerate.commands.launch", *launch, "--steps", "6")


@pytest.mark.soak  # its ranks are found as those of accelerate launch, by their variables
def test_deepspeed(tmp_path: Path, torchdeck_home: Path) -> None:
    python = deepspeed_python()
    if python is None:
        pytest.skip(NO_DEEPSPEED)
    script = DEEPSPEED.replace("parser = ", f"if True:{HOLDS}\nparser = ", 1)
    (tmp_path / "train.py").write_text(ending(script))
    launch = ("--num_gpus=2", f"--master_port={free_port()}", "--no_local_rank", "train.py", "--max_steps=6")
    launched(Command(torchdeck_home), tmp_path, str(python), "deepspeed.launcher.runner", *launch)
