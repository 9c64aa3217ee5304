"""Sweeps of a cheap script with two real ranks: pruned, killed, resumed; the best is found in fewer steps."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from support.cli.command import Command
from support.waiting import wait_until
from torchdeck.contract.journal import Event, read_journal
from torchdeck.runs.folders.notes import read_notes
from torchdeck.sweeps.sweep_layout import SweepLayout
from torchdeck.sweeps.sweep_state import ENDED, STARTED
from torchdeck.use_cases.sweeps.listing import sweep_ids

STEPS = 12
BEST = 0.3
TRAIN = f"""
import os, sys, time
import torchdeck
lr, pace, good = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
for step in range(1, {STEPS} + 1):
    if os.environ["RANK"] == "0":
        torchdeck.log({{"loss": abs(lr - {BEST}) + 1 / step}}, step=step)
    if good and step == 4 and sys.argv[1] not in good:
        time.sleep(300)  # until it is pruned
    time.sleep(pace)
"""
RUN = """
name = "toy"
[run]
script = "train.py"
args = ["{lr}", @]
[distributed]
nproc = 2
devices = "cpu"
[launch]
stop_grace = 10
kill_grace = 1
"""


def run_file(folder: Path, *arguments: str) -> Path:
    (folder / "train.py").write_text(TRAIN)
    path = folder / "toy.toml"
    path.write_text(RUN.replace("@", ", ".join(f'"{each}"' for each in arguments)))
    return path


def events(home: Path, name: str) -> list[Event]:
    """Events of a kind in the journal of the only sweep."""
    found = [SweepLayout(home / "sweeps" / each) for each in sweep_ids(home)]
    return [event for each in found for event in read_journal(each.journal) if event.name == name]


def ended(command: Command, *arguments: str | Path) -> Any:
    """The sweep as it is after a command that drives it."""
    done = command.run(*arguments, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return command.json("sweep", "show", "latest")


@pytest.mark.processes
def test_a_sweep_is_pruned_and_survives_its_driver(home: Path, tmp_path: Path) -> None:
    """Killed while a run goes on whose id it had no time to write, it starts nothing twice."""
    command = Command(home)
    path = run_file(tmp_path, "0", "0.5", "0.3")
    values = "lr=0.5,0.3,0.9,0.7,1.1,1.3"
    options = ("--metric", "loss", "--prune", "asha", "--prune-after", "3")
    with command.start("sweep", path, "--over", values, *options, "--json") as driver:
        wait_until(lambda: len(events(home, STARTED)) >= 3, 200, "the start of the third trial")
        driver.send_signal(signal.SIGKILL)
        driver.wait(20)
    (journal,) = (home / "sweeps").glob("*/journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"event": "trial_started"' in line)
    journal.write_bytes(b"".join(lines[:last]))
    assert command.json("sweep", "show", "latest")["status"] == "interrupted"

    found = ended(command, "sweep", "resume", "latest", "--json")
    assert found["status"] == "ended"
    assert found["best"]["values"] == {"lr": BEST}
    assert found["best"]["value"] == pytest.approx(1 / STEPS)
    assert (found["counts"]["complete"], found["counts"]["pruned"]) == (2, 4)
    assert found["steps"] == 2 * STEPS + 4 * 4 < 6 * STEPS
    runs = [run["id"] for trial in found["trials"] for run in trial["runs"]]
    assert sorted(runs) == [layout.root.name for layout in command.runs()]
    assert len(events(home, ENDED)) == 6
    assert {note.tags for note in read_notes(home).values()} == {(f"sweep:{found['id']}",)}


@pytest.mark.processes
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_thirty_trials_of_two_ranks_find_the_best_in_fewer_steps(home: Path, tmp_path: Path) -> None:
    path = run_file(tmp_path, "0.3")
    options = ("--trials", "30", "--metric", "loss", "--prune", "asha", "--prune-after", "2")
    found = ended(
        Command(home), "sweep", path, "--over", "lr=0.01..2:log", *options, "--at-once", "2", "--json"
    )
    best = min((trial["values"]["lr"] for trial in found["trials"]), key=lambda lr: abs(lr - BEST))
    assert len(found["trials"]) == 30
    assert found["best"]["values"]["lr"] == best
    assert found["counts"]["pruned"] > 5
    assert found["steps"] < 30 * STEPS * 0.8
    print(found["counts"], found["steps"], 30 * STEPS)
