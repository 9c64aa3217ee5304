"""A rank's process ends only once gloo's workers sleep."""

import threading
import time
from pathlib import Path

import pytest

from torchdeck.telemetry.doctor.gloo_workers import WORKER, wait_until_idle


def thread_folder(root: Path, tid: int, name: str, state: str) -> None:
    (root / str(tid)).mkdir(parents=True)
    (root / str(tid) / "stat").write_text(f"{tid} ({name}) {state} 1 1 1 0 -1")


@pytest.mark.parametrize(
    ("name", "state", "idle"),
    [
        (WORKER, "S", True),
        (WORKER, "R", False),
        (WORKER, "D", False),
        ("python", "R", True),
        (f"a) R ({WORKER}", "R", True),
    ],
)
def test_only_workers_that_run_are_waited_for(tmp_path: Path, name: str, state: str, idle: bool) -> None:
    thread_folder(tmp_path, 1, "python", "R")
    thread_folder(tmp_path, 2, name, state)
    assert wait_until_idle(0.05, tmp_path) is idle


def test_a_worker_that_is_still_at_work_is_waited_for() -> None:
    working, worked = threading.Event(), threading.Event()

    def work() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(WORKER)
        until = time.monotonic() + 0.3
        working.set()
        while time.monotonic() < until:  # the state of a thread that computes
            sum(range(10_000))
        worked.set()
        ending.wait(10)

    ending = threading.Event()
    worker = threading.Thread(target=work)
    worker.start()
    assert working.wait(10)
    assert wait_until_idle(10)
    assert worked.is_set()
    ending.set()
    worker.join(10)
