"""The agent follows the files in which a script reports: each row once, of this run and its rank."""

from __future__ import annotations

import os
from pathlib import Path

from support.agents.agent_run import AgentRun, Maker
from support.agents.agent_scripts import kill_and_wait
from support.values.metrics import opened
from support.waiting import wait_until
from torchdeck.contract.metrics.script_state import Origin, read_script_state

TRAINING = """
import json, os, sys, time
from pathlib import Path
rank = int(os.environ["RANK"])

def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.02)

def record(step):
    with open("out/trainer_log.jsonl", "a") as file:
        file.write(json.dumps({"current_steps": step, "total_steps": 40, "loss": 1 / step}) + "\\n")

wait_for("begin")
if rank == 0:
    for step in range(1, 11):
        record(step)
    wait_for("more")
    for step in range(11, 21):
        record(step)
else:
    with open("../far/metrics.csv", "w") as table:
        table.write("step,val_loss\\n1,0.5\\n")
        table.flush()
        wait_for("more")
        table.write("2,0.25\\n")
wait_for("end")
"""


def folder_of(run: AgentRun) -> Path:
    """The ranks' working directory."""
    return Path(run.plan.nodes[0].working_dir)


def rows(run: AgentRun, name: str, rank: int) -> list[tuple[int, float]]:
    """(step, value) of a metric."""
    metrics = opened(run.layout.root)
    if rank not in metrics.ranks(name):
        return []
    series = metrics.series(name, rank)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_rows_are_written_once_through_the_death_of_an_agent(make_run: Maker) -> None:
    """Older rows of a reused file are left out; a table that is held open elsewhere is its writer's."""
    run = make_run(TRAINING)
    folder = folder_of(run)
    (folder / "out").mkdir()
    (folder.parent / "far").mkdir()
    (folder / "node_modules").mkdir()
    (folder / "node_modules/trainer_log.jsonl").touch()
    old = folder / "out/trainer_log.jsonl"
    old.write_text('{"current_steps": 1, "total_steps": 9, "loss": 77}\n' * 5)
    os.utime(old, (1e9, 1e9))
    run.start()
    baseline = run.layout.attempt(1).node("localhost").trainer_files
    wait_until(baseline.exists, 20, "the first walk")
    (folder / "begin").touch()
    first = [(step, 1 / step) for step in range(1, 11)]
    wait_until(lambda: rows(run, "loss", 0) == first, 20, "ten rows")
    wait_until(lambda: rows(run, "val_loss", 1) == [(1, 0.5)], 20, "the other rank's row")
    kill_and_wait(run.agent())
    wait_until(lambda: run.agent() is not None, 10, "another agent")
    (folder / "more").touch()
    both = [*first, *((step, 1 / step) for step in range(11, 21))]
    wait_until(lambda: len(rows(run, "loss", 0)) >= 20, 20, "ten more")
    wait_until(lambda: run.heartbeat()["ranks"]["0"]["step"] == 20, 10, "the heartbeat to have the step")
    wait_until(lambda: run.heartbeat()["ranks"]["0"]["total"] == 40, 10, "and the total")
    (folder / "end").touch()
    assert run.finished()["state"] == "SUCCEEDED"
    assert rows(run, "loss", 0) == both
    assert rows(run, "val_loss", 1) == [(1, 0.5), (2, 0.25)]
    assert rows(run, "val_loss", 0) == []
    state = read_script_state(run.layout.attempt(1).rank(0).script)
    assert state is not None
    assert (state.step, state.total) == (20, 40)
    assert state.origins["loss"] == Origin("file", "trainer_log.jsonl")


def test_a_script_that_ends_at_once_has_its_rows(make_run: Maker) -> None:
    """The last look is after the end: at files that are new then, and one that was written from the start."""
    run = make_run("""
        import os
        from pathlib import Path
        Path("out").mkdir(exist_ok=True)
        if os.environ["RANK"] == "0":
            Path("out/results.csv").write_text("epoch,train/loss\\n1,3\\n2,2\\n")
            Path("out/notes.jsonl").write_text('{"text": "a"}\\n')
            Path("out/mine.jsonl").write_text('{"step": 4, "acc": 1}\\n')
            lines = [f'{{"current_steps": {step}, "loss": {step}}}\\n' for step in range(1, 5)]
            Path("out/trainer_log.jsonl").write_text("".join(lines))
    """)
    (folder_of(run) / "out").mkdir()
    old = folder_of(run) / "out/trainer_log.jsonl"
    old.write_text('{"current_steps": 1, "loss": 77}\n')
    os.utime(old, (1e9, 1e9))
    run.start()
    assert run.finished()["state"] == "SUCCEEDED"
    assert rows(run, "train/loss", 0) == [(1, 3.0), (2, 2.0)]
    assert rows(run, "acc", 0) == [(4, 1.0)]
    assert rows(run, "loss", 0) == [(step, float(step)) for step in range(1, 5)]
