"""Checkpoints that a script writes by itself are journaled as they are completed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from support.agents.agent_run import NODE, Maker, with_policy
from torchdeck.agent.ranks import trainer_checkpoints
from torchdeck.agent.ranks.trainer_checkpoints import TrainerCheckpoints, TrainerCheckpointWatch
from torchdeck.contract.atomic import write_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.checkpoints.journaled import SAVED, JournaledCheckpoint, journaled_checkpoints


def write(path: Path, changed: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", bytes(20_000))
    os.utime(path, (changed, changed))
    return path


def watch_of(folder: Path, since: float = 1000.0) -> TrainerCheckpointWatch:
    return TrainerCheckpointWatch([folder], [], since, {})


def looked(watch: TrainerCheckpointWatch, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two searches, a while apart: content that is equal in both is not being written."""
    search_later(watch, monkeypatch)
    search_later(watch, monkeypatch)
    return [Path(saved.path).name for saved in watch.changes().saved]


def search_later(watch: TrainerCheckpointWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: clock + 10.0)
    watch.search()


def test_what_was_there_before_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "epoch_1.pt", 900.0)
    write(tmp_path / "epoch_2.pt", 1100.0)
    assert looked(watch_of(tmp_path), monkeypatch) == ["epoch_2.pt"]


def test_a_file_rewritten_in_place_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the step that the ranks had reported when it was written."""
    watch = watch_of(tmp_path)
    watch.progress(1090.0, 10)
    watch.progress(1190.0, 20)
    path = write(tmp_path / "ckpt.pt", 1100.0)
    assert looked(watch, monkeypatch) == ["ckpt.pt"]
    newest = watch.newest
    assert newest is not None
    assert (newest.kind, newest.step, newest.about) == (CheckpointKind.NANOGPT, 10, True)
    assert looked(watch, monkeypatch) == []
    write(path, 1200.0)
    assert looked(watch, monkeypatch) == ["ckpt.pt"]
    assert watch.newest is not None
    assert watch.newest.step == 20


def test_a_file_that_grows_waits_until_it_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights_1.pt"
    path.write_bytes(bytes(20_000))  # an old format without an end record
    os.utime(path, (1100.0, 1100.0))
    watch = watch_of(tmp_path)
    search_later(watch, monkeypatch)
    path.write_bytes(bytes(30_000))
    os.utime(path, (1100.0, 1100.0))
    search_later(watch, monkeypatch)
    assert watch.changes().saved == ()
    assert looked(watch, monkeypatch) == ["weights_1.pt"]


def test_deleted_ones_are_told_and_not_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = write(tmp_path / "epoch_1.pt", 1100.0), write(tmp_path / "epoch_2.pt", 1200.0)
    watch = watch_of(tmp_path)
    looked(watch, monkeypatch)
    second.unlink()
    search_later(watch, monkeypatch)
    assert watch.changes().gone == (), "the program may be replacing it"
    assert watch.newest is not None
    assert watch.newest.path == str(first)
    search_later(watch, monkeypatch)
    assert watch.changes().gone == (str(second),)


def test_a_file_that_is_replaced_every_other_second_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is written or deleted, the last one that was complete counts, with its step."""
    path, watch, now = tmp_path / "ckpt.pt", watch_of(tmp_path), [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for number in range(30):  # four searches, 0.55 s apart, and it is written again
        if number % 4 == 0:
            watch.progress(1100.0 + number, 100 + number)
            write(path, 1100.0 + number)
        elif number % 4 == 3:
            path.unlink()
        now[0] += 0.55
        watch.search()
    changes = watch.changes()
    assert len(changes.saved) > 3
    assert changes.gone == ()
    assert [saved.step for saved in changes.saved] == [round(saved.changed) - 1000 for saved in changes.saved]


def test_the_step_of_a_file_is_that_in_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the ranks report a moment later."""
    watch = watch_of(tmp_path)
    for number in range(900, 930):
        watch.progress(1100.0 + (number - 900) / 25, number)
    torch.save({"model": torch.zeros(5000), "iter_num": 900}, tmp_path / "ckpt.pt")
    os.utime(tmp_path / "ckpt.pt", (1100.0, 1100.0))
    assert looked(watch, monkeypatch) == ["ckpt.pt"]
    assert watch.newest is not None
    assert (watch.newest.step, watch.newest.about) == (900, False)


def test_the_step_that_was_reported_nearest_to_the_save_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fast program reports later ones within the second; one that saves first reports it just after."""
    fast = watch_of(tmp_path / "fast")
    for number in range(900, 930):
        fast.progress(1100.0 + (number - 900) / 25, number)
    write(tmp_path / "fast/ckpt.pt", 1100.01)
    looked(fast, monkeypatch)
    slow = watch_of(tmp_path / "slow")
    slow.progress(1090.0, 9)
    slow.progress(1100.1, 10)
    write(tmp_path / "slow/ckpt.pt", 1100.0)
    looked(slow, monkeypatch)
    assert fast.newest is not None
    assert slow.newest is not None
    assert (fast.newest.step, slow.newest.step) == (900, 10)


ROTATES = """
    import json, pathlib, shutil, time
    for step in (10, 20, 30):
        folder = pathlib.Path("out", f"checkpoint-{step}")
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(1000))
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        time.sleep(1.5)
    shutil.rmtree("out/checkpoint-10")
    """


@pytest.mark.processes
def test_the_agent_journals_them_with_step_size_and_place(make_run: Maker) -> None:
    """And which were deleted; the run's end names the newest."""
    run = make_run(ROTATES, nproc=1).start()
    end = run.finished()
    saved = run.events("checkpoint")
    assert [(event.fields["step"], event.fields["kind"]) for event in saved] == [
        (10, "hf"),
        (20, "hf"),
        (30, "hf"),
    ]
    assert saved[0].fields["size"] > 1000
    there = journaled_checkpoints(run.events())
    assert [Path(path).name for path in there] == ["checkpoint-20", "checkpoint-30"]
    assert end["checkpoint"] == f"{run.plan.nodes[0].working_dir}/out/checkpoint-30"


SAVES = """
    import os, pathlib, sys, time, zipfile
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    with zipfile.ZipFile(out / "model_step_2.pt", "w") as archive:
        archive.writestr("data.pkl", bytes(20_000))
    time.sleep(1)
    raise SystemExit(os.environ["TORCHDECK_ATTEMPT"] == "1")
    """


@pytest.mark.processes
@pytest.mark.parametrize("out", [".", "mine"])
def test_what_another_run_in_the_same_folder_may_have_saved_is_not_resumed(make_run: Maker, out: str) -> None:
    """Unless an argument of our own names the folder in which it lies."""
    run = make_run(SAVES, nproc=1, policy=with_policy(max_restarts=1))
    (node,) = run.plan.nodes
    node = replace(node, command=(*node.command, out))
    checkpoint = replace(run.plan.checkpoint, resume_args=("@{checkpoint}",))
    write_json(run.layout.plan, replace(run.plan, nodes=(node,), checkpoint=checkpoint).document())
    other = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        cwd=node.working_dir,
        stdin=subprocess.PIPE,
        env={**os.environ, "TORCHDECK_RUN_ID": "another-run"},
    )
    try:
        run.start().finished()
    finally:
        other.communicate(b"\n", timeout=10)
    saved, (_, second) = run.events("checkpoint")[0], run.events("attempt_started")
    if out == ".":
        assert saved.fields["other"] == "another-run"
        assert "another-run uses the same folder" in second.fields["from_scratch"]
        assert second.fields["resume"] == ""
    else:
        assert "other" not in saved.fields
        assert second.fields["resume"] == saved.fields["path"]


@pytest.mark.processes
@pytest.mark.timeout(90)
def test_a_named_pipe_in_place_of_a_file_does_not_keep_the_agent(make_run: Maker) -> None:
    """Neither while it looks for checkpoints nor at the run's end; those after it are found."""
    script = """
        import json, os, pathlib, time
        pathlib.Path("out/checkpoint-1").mkdir(parents=True)
        os.mkfifo("out/checkpoint-1/trainer_state.json")
        pathlib.Path("out/global_step2").mkdir()
        os.mkfifo("out/latest")
        time.sleep(1)
        pathlib.Path("out/checkpoint-3").mkdir()
        pathlib.Path("out/checkpoint-3/trainer_state.json").write_text(json.dumps({"global_step": 3}))
        """
    run = make_run(script, nproc=1).start()
    assert run.finished(30)["checkpoint"].endswith("/out/checkpoint-3")
    run.agents[-1].wait(20)


@pytest.mark.timeout(30)
def test_a_file_system_that_does_not_answer_does_not_keep_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_run: Maker, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the end of an attempt both the search that runs and the last one are given up after a while."""
    asked, answers = threading.Semaphore(0), threading.Event()

    def hang(*_: object) -> list[object]:
        asked.release()
        answers.wait()
        return []

    monkeypatch.setattr(trainer_checkpoints, "find_checkpoints", hang)
    monkeypatch.setattr(trainer_checkpoints, "STOP_LIMIT", 0.1)
    monkeypatch.setattr(trainer_checkpoints, "LAST_LIMIT", 0.1)
    run = make_run("", nproc=1)
    run.node.root.mkdir(parents=True)
    with JournalWriter(run.node.journal) as journal:
        checkpoints = TrainerCheckpoints(run.layout, NODE, journal)
        try:
            checkpoints.begin(1, run.plan)
            assert asked.acquire(timeout=10)
            assert checkpoints.end([]) == []
            assert checkpoints.look([]) == []
            assert (checkpoints.newest, checkpoints.last_size) == ("", 0)
        finally:
            answers.set()
    assert "last look for checkpoints: no end after 0.1 s" in capfd.readouterr().err


def test_the_newest_is_known_without_asking_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's loop asks for it at a restart; the file system may hang by then."""
    path = write(tmp_path / "epoch_1.pt", 1100.0)
    watch = watch_of(tmp_path)
    looked(watch, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", lambda _path: pytest.fail("the file system was asked"))
        newest = watch.newest
    assert newest is not None
    assert newest.path == str(path)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("answers", [True, False])
def test_earlier_checkpoints_are_looked_for_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """Without an answer the newest that was journaled counts; with one, the newest that is there."""
    layout, over = RunLayout(tmp_path / "run"), threading.Event()
    layout.node(NODE).root.mkdir(parents=True)
    here, gone = write(tmp_path / "epoch_1.pt", 1100.0), tmp_path / "epoch_2.pt"
    with JournalWriter(layout.node(NODE).journal) as journal:
        for path, changed in ((here, 1100.0), (gone, 1200.0)):
            saved = JournaledCheckpoint(None, str(path), 0.0, 1, CheckpointKind.NANOGPT, changed, True)
            journal.append(SAVED, **saved._asdict())
        exists = Path.exists
        monkeypatch.setattr(trainer_checkpoints, "LAST_LIMIT", 10.0 if answers else 0.1)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "exists", lambda path: (answers or over.wait()) and exists(path))
            newest = TrainerCheckpoints(layout, NODE, journal).newest
            over.set()
    assert newest == str(here if answers else gone)
