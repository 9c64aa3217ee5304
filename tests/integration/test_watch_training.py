"""Trainings that Torchdeck did not start, started by hand and watched by process and by folder."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import nothing_left
from support.cli.command import Command, wait_until_gone
from support.system.trainers_python import ABSENT, trainers_python
from support.training.by_hand import PLAIN, by_hand, reached
from support.waiting import wait_until
from torchdeck.runs.follower import read_run

pytestmark = pytest.mark.processes

HUGGING_FACE = """
    import time, torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 4096
        def __getitem__(self, index):
            tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": tokens, "labels": tokens}

    class Slow(TrainerCallback):
        def on_step_end(self, *_, **__):
            time.sleep(0.1)

    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(
        "out", max_steps=10_000, logging_steps=2, save_steps=10, use_cpu=True, report_to=[],
        per_device_train_batch_size=2, save_total_limit=2,
    )
    Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Slow()]).train()
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


def quit_is_caught(pid: int) -> bool:
    """Whether a process has a handler for SIGQUIT; before, the signal would end it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGQUIT - 1))


def test_a_process_is_watched_until_it_ends(command: Command, tmp_path: Path) -> None:
    """Its whole history is there, with total, memory, log and checkpoints; control is refused."""
    with by_hand(tmp_path / "work", PLAIN, "--max_steps", "400") as pid:
        table = tmp_path / "work" / "out" / "metrics.csv"
        wait_until(lambda: table.exists() and table.read_text().count("\n") > 5, 60, "first rows")
        with command.start("watch", "--pid", str(pid), "--json") as front:
            run = command.the_run()
            assert reached(run, 45, with_total=True).total == 400
            memory = wait_until(lambda: read_run(run).ranks[0].rss_bytes, 30, "its memory")
            assert memory is not None
            assert memory > 50 << 20
            stopped = command.run("runs", "stop", "latest")
            assert stopped.returncode == 3
            assert "Torchdeck did not start train" in stopped.stderr
            assert "Torchdeck did not start train" in command.run("runs", "clone", "latest").stderr
            assert [each["step"] for each in command.json("ckpt", "list", "latest")][:2] == [20, 40]
            assert command.json("runs", "list")[0]["state"] == "RUNNING"
            output, _ = front.communicate(timeout=120)
        assert front.returncode == 0, output
    events = [json.loads(line) for line in output.splitlines()]
    assert {"state", "progress", "checkpoint"} <= {event["event"] for event in events}
    view = read_run(run)
    assert (view.state.value, view.why) == ("SUCCEEDED", "its process ended after all 400 steps")
    rows = command.json("runs", "metrics", "latest")
    assert "val_loss" in json.dumps(rows)
    assert run.attempt(1).rank(0).stdout.read_text().startswith("step 1 loss 3.0000\n")
    assert "Torchdeck did not start train" in command.run("runs", "resume", "latest").stderr
    # nothing was written to its folder
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"train.py", "train.log", "out"}
    wait_until_gone(run)


@pytest.mark.soak  # a normal run watches a process; what its files say is read in tests/trainers/files
def test_a_folder_of_hugging_face_is_watched_until_ctrl_c(command: Command, tmp_path: Path) -> None:
    """State, steps and total come from its files; Ctrl-C ends the watch, and leaves the training alone."""
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    with by_hand(tmp_path / "work", HUGGING_FACE, python=python) as pid:
        wait_until(lambda: list((tmp_path / "work").glob("out/checkpoint-*0")), 120, "a checkpoint")
        with command.start("watch", tmp_path / "work") as front:
            run = command.the_run()
            seen = reached(run, 20, with_total=True)
            assert seen.total == 10_000
            assert seen.loss is not None
            wait_until(lambda: read_run(run).checkpoint, 60, "a checkpoint in the list")
            again = command.run("watch", "--detach", tmp_path / "work")
            assert again.stdout.strip() == run.root.name  # it is not watched twice
            with command.start("runs", "attach", "latest") as attached:
                wait_until(lambda: read_run(run).ranks, 60, "its rank")
                wait_until(lambda: quit_is_caught(attached.pid), 60, "the keys of the front end")
                attached.send_signal(signal.SIGQUIT)
                assert attached.stdout is not None
                refused = "Torchdeck did not start work: it is only watched, and cannot be stopped"
                assert any(refused in line for line in attached.stdout)
            front.send_signal(signal.SIGINT)
            output, _ = front.communicate(timeout=60)
        assert front.returncode == 130, output
        assert "ending the watch; the training is left alone" in output
        os.kill(pid, 0)
    assert read_run(run).why == "the watch was ended; the training was left alone"
    wait_until_gone(run)


def test_an_empty_folder_is_said_to_be_empty(command: Command, tmp_path: Path) -> None:
    """Some seconds after the start, once; the first line says what Ctrl-C ends."""
    folder = tmp_path / "work"
    folder.mkdir()
    with command.start("watch", folder) as front:
        assert front.stdout is not None
        shown = []
        for line in front.stdout:
            shown.append(line)
            if "nothing found in" in line:
                break
        assert shown[-1:] == [f"torchdeck: nothing found in {folder} yet\n"], shown
        assert any("Ctrl-C ends the watch, not the training" in line for line in shown)
        front.send_signal(signal.SIGINT)
        output, _ = front.communicate(timeout=60)
        assert "nothing found" not in output
    wait_until_gone(command.the_run())


def test_what_cannot_be_watched_is_refused(command: Command, tmp_path: Path) -> None:
    """A missing folder, process or node, and nothing at all: a sentence each, exit status 2."""
    for arguments, said in (
        ((), "no training is given"),
        ((tmp_path / "absent",), "there is no folder"),
        (("--pid", "999999999"), "there is no process 999999999"),
        (("gpu7:/data/run",), "there is no node gpu7"),
        (("--end", "latest"), "there are no runs"),
    ):
        done = command.run("watch", *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert command.runs() == []
