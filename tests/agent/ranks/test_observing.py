"""Small watchers: requests, checkpoints, stdout, scripts' steps, disk, machine, GPUs."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.values.checkpoint_files import flip, save
from torchdeck.agent.attempt.attempt_plan import free_port, resume_from
from torchdeck.agent.attempt.local_attempt import compose_environment
from torchdeck.agent.attempt.resume_points import AttemptError
from torchdeck.agent.gpus import gpu_sampler, parse_smi
from torchdeck.agent.housekeeping import Syncer
from torchdeck.agent.inbox import Inbox
from torchdeck.agent.machine import MachineSampler, rank_memory
from torchdeck.agent.ranks.checkpoint_watch import CheckpointWatch
from torchdeck.agent.ranks.printed_series import PrintedSeries, written_position
from torchdeck.agent.ranks.rank_watch import ScriptProgress
from torchdeck.contract.free_space import free_bytes, low_disk
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.rank_layout import RankLayout
from torchdeck.telemetry.writer import MetricsWriter

RUN = "test-run"
"""The run id that support.values.checkpoint_files writes."""
EVER = float("inf")
"""A time by which all is parsed."""


def nobody(path: str, why: str) -> None:
    raise AssertionError((path, why))


def test_requests_are_given_once_in_order(tmp_path: Path) -> None:
    """By name; files that are no request, or of a newer format, are passed over; taken ones are not
    given again."""
    for name, value in {
        "1-a": {"v": 1, "id": "1-a", "kind": "stop"},
        "0-b": {"v": 1, "id": "0-b", "kind": "stop_now"},
        "2-c": {"v": 2, "id": "2-c", "kind": "stop"},
        "3-d": {"v": 1, "id": "3-d", "kind": "dance"},
        "4-e": {"v": 1, "id": "4-e", "kind": "stop"},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "5-f.json").write_text("{")
    inbox = Inbox(tmp_path, frozenset({"4-e"}))
    assert [(request.id, request.kind) for request in inbox.read_new()] == [
        ("0-b", "stop_now"),
        ("1-a", "stop"),
    ]
    assert inbox.read_new() == []
    assert Inbox(tmp_path / "none", frozenset()).read_new() == []


def test_complete_checkpoints_are_seen_once(tmp_path: Path) -> None:
    """With step, size and time it took; those journaled by an earlier agent, and other runs', are left
    out."""
    first = save(tmp_path, 10)
    watch = CheckpointWatch(tmp_path, RUN, frozenset())
    seen = watch.look()
    assert [(item.step, item.path, item.seconds) for item in seen] == [(10, str(first), 0.25)]
    assert seen[0].size == watch.last_size > 0
    (tmp_path / "step_00000015").mkdir()
    second = save(tmp_path, 20)
    assert [item.path for item in watch.look()] == [str(second)]
    assert watch.look() == []
    assert CheckpointWatch(tmp_path, RUN, frozenset({(str(first), 10), (str(second), 20)})).look() == []
    assert CheckpointWatch(tmp_path, "another", frozenset()).look() == []


def test_a_checkpoint_that_came_within_a_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    """Its folder's time does not tell of it: another change came just before the last look."""
    save(tmp_path, 10)
    watch = CheckpointWatch(tmp_path, RUN, frozenset())
    watch.look()
    times = tmp_path.stat()
    second = save(tmp_path, 20)
    os.utime(tmp_path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if the clock were that coarse
    assert [item.path for item in watch.look()] == [str(second)]


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    """One flipped byte in the newest: it is told, and the one before it is used."""
    older, newer = save(tmp_path, 10), save(tmp_path, 20)
    assert resume_from("auto", tmp_path, RUN, 1, nobody) == (str(newer), 20)
    flip(newer / "__0_0.distcp", 3)
    told: list[tuple[str, str]] = []
    chosen = resume_from("auto", tmp_path, RUN, 1, lambda path, why: told.append((path, why)))
    assert chosen == (str(older), 10)
    assert [path for path, _ in told] == [str(newer)]
    flip(older / "__0_0.distcp", 3)
    with pytest.raises(AttemptError, match="every checkpoint"):
        resume_from("auto", tmp_path, RUN, 1, nobody)


def test_what_an_attempt_resumes_from_follows_the_policy(tmp_path: Path) -> None:
    """never: nothing at first, the run's own later; a path: that one, or an error that says why."""
    saved = save(tmp_path, 10)
    assert resume_from("never", tmp_path, RUN, 1, nobody) == ("", None)
    assert resume_from("never", tmp_path, RUN, 2, nobody) == (str(saved), 10)
    assert resume_from("never", tmp_path, "another", 2, nobody) == ("", None)
    assert resume_from(str(saved), tmp_path / "none", RUN, 1, nobody) == (str(saved), 10)
    assert resume_from("auto", tmp_path / "none", RUN, 1, nobody) == ("", None)
    with pytest.raises(AttemptError, match="cannot resume: there is no checkpoint"):
        resume_from(str(tmp_path / "step_00000099"), tmp_path, RUN, 1, nobody)


def test_stdout_is_followed_to_the_byte(tmp_path: Path) -> None:
    """A line cut in the middle is read once it is whole; a second reader goes on where the rows end."""
    rank = RankLayout(tmp_path)
    with rank.stdout.open("ab", buffering=0) as file:
        file.write(b"step 1: loss 3.5\nstep 2: lo")
        series = PrintedSeries(rank, ())
        assert not series.follow(EVER)
        file.write(b"ss 2.5\nnothing here\n")
        assert not series.follow(EVER)
        offset = len(b"step 1: loss 3.5\nstep 2: loss 2.5\n")
        assert written_position(rank.metrics) == (offset, 2)
        file.write(b"loss: 1.5\n")
        PrintedSeries(rank, ()).follow(EVER)
        assert written_position(rank.metrics) == (offset + len(b"nothing here\nloss: 1.5\n"), 3)
        assert ScriptProgress(rank.metrics).look() is not None


def test_a_scripts_progress_is_its_newest_row(tmp_path: Path) -> None:
    """Of all tables; the time between rows is its rhythm."""
    progress = ScriptProgress(tmp_path)
    assert progress.look() is None
    with MetricsWriter(tmp_path) as writer:
        writer.log({"loss": 1.0}, step=4)
        assert [row.step for row in [progress.look()] if row is not None] == [4]
        assert ScriptProgress(tmp_path).times.slow_step is progress.times.slow_step
        writer.log({"accuracy": 1.0, "loss": 2.0}, step=9)
        assert [row.step for row in [progress.look()] if row is not None] == [9]
        slow = progress.times.slow_step
        assert slow is not None
        assert 0 < slow < 60


def test_room_is_wanted_for_the_next_checkpoint(tmp_path: Path) -> None:
    """The larger of min_free and 1.5 × the last checkpoint, where checkpoints lie; a folder to come
    counts as its parent."""
    coming = tmp_path / "a" / "b"
    free = free_bytes(coming)
    assert low_disk(tmp_path, coming, 1, 1) is None
    low = low_disk(tmp_path, coming, 1, 2 * free)
    assert low is not None
    assert (low.path, low.needed) == (str(coming), 3 * free)
    assert low_disk(tmp_path, coming, 1 << 62, 0) is not None


def test_the_machine_is_sampled(tmp_path: Path) -> None:
    """Every series that a Linux node has, in sane ranges; memory by rank."""
    sampler = MachineSampler(tmp_path)
    row = sampler.sample()
    assert 0 < row["memory_used_bytes"] < row["memory_total_bytes"]
    assert row["disk_free_bytes"] > 0
    assert 0 <= row.get("cpu_percent", 0.0) <= 100
    assert row["net_rx_bytes_per_s"] >= 0
    assert set(rank_memory({0: os.getpid(), 1: 2**22 + 1})) == {0}


def test_nvidia_smis_rows_are_read() -> None:
    """Units become ours; what a device does not tell is left out."""
    values = parse_smi("0, 55, 1024, 81920, 61, 300.5\n1, [N/A], 0, 81920, 40, [Not Supported]\nNo devices\n")
    assert values["gpu0_util"] == 55
    assert values["gpu0_memory_used_bytes"] == 1024 * 2**20
    assert values["gpu0_power_w"] == 300.5
    assert "gpu1_util" not in values
    assert values["gpu1_temperature_c"] == 40


@pytest.mark.processes
def test_nvidia_smi_is_asked_where_there_is_no_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name on the PATH answers; one that fails gives an empty row."""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ -e "$0.broken" ] && exit 9\necho "0, 10, 1, 2, 30, 40"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    sampler = gpu_sampler()
    assert sampler is not None
    assert sampler()["gpu0_util"] == 10
    (tmp_path / "nvidia-smi.broken").touch()
    assert sampler() == {}


def test_only_what_grew_is_synced(tmp_path: Path) -> None:
    """A file that did not change costs a stat."""
    (tmp_path / "0").mkdir()
    log = tmp_path / "0" / "stdout.log"
    log.write_text("a")
    syncer = Syncer([tmp_path, tmp_path / "none"])
    assert (syncer.sync(), syncer.sync()) == (1, 0)
    log.write_text("ab")
    assert syncer.sync() == 1


def test_the_environment_of_ranks_is_composed() -> None:
    """Removed by name and by prefix, then set; PATH begins with the interpreter's folder."""
    node = NodePlan(
        "a", "", 0, 1, (), "", (), (), ("python", "-u"), {"KEPT": "2", "PET_X": "3"}, ("PET_*", "GONE")
    )
    environ = {"PATH": "/bin", "PET_NNODES": "2", "GONE": "1", "KEPT": "1"}
    composed = {"PATH": "/bin", "KEPT": "2", "PET_X": "3"}
    assert compose_environment(environ, node) == composed
    venv = dataclasses.replace(node, command=("/venv/bin/python",))
    assert compose_environment(environ, venv) == {**composed, "PATH": "/venv/bin:/bin"}
    again = {**environ, "PATH": "/venv/bin:/bin"}
    assert compose_environment(again, venv)["PATH"] == "/venv/bin:/bin"
    own = dataclasses.replace(venv, env={"PATH": "/mine"})
    assert compose_environment(environ, own) == {"PATH": "/mine", "KEPT": "1"}


def test_free_ports_are_free() -> None:
    """A port that can be bound."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


@pytest.mark.processes
def test_memory_of_a_rank_includes_its_workers() -> None:
    """Processes below it, of any depth; pages that they share count once."""
    code = """
import os, subprocess, sys, time
held = b"x" * 60_000_000
if os.fork():
    print("up", flush=True)
    time.sleep(60)
worker = "import time; held = b'x' * 90_000_000; print('up', flush=True); time.sleep(60)"
subprocess.run([sys.executable, "-c", worker])
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"up\n", b"up\n"]
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        memory = rank_memory({0: process.pid})[0]
        assert resident + 80_000_000 < memory < resident + 150_000_000
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)
