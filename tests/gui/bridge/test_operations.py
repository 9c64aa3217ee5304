"""Operations: calls in workers, outcomes in the GUI thread."""

import gc
import threading
import weakref

import pytest
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.operations import Operations


def test_the_outcome_arrives_in_the_gui_thread(qtbot: QtBot, operations: Operations) -> None:
    threads: list[threading.Thread] = []
    found: list[tuple[int, threading.Thread]] = []

    def call(progress: object, cancel: object) -> int:
        threads.append(threading.current_thread())
        return 7

    operation = operations.run(
        "counting", call, done=lambda value: found.append((value, threading.current_thread()))
    )
    assert operation in operations.running
    qtbot.waitUntil(lambda: bool(found))
    assert found == [(7, threading.main_thread())]
    assert threads[0] is not threading.main_thread()
    assert not operations.running


def test_what_it_raises_arrives_as_a_failure(qtbot: QtBot, operations: Operations) -> None:
    found: list[Exception] = []

    def call(progress: object, cancel: object) -> None:
        raise ValueError("no such file")

    operations.run("reading", call, failed=found.append)
    qtbot.waitUntil(lambda: bool(found))
    assert str(found[0]) == "no such file"


def test_progress_is_told_in_order(qtbot: QtBot, operations: Operations) -> None:
    said: list[str] = []
    go = threading.Event()

    def call(progress, cancel):  # type: ignore[no-untyped-def]
        go.wait(10)
        for word in ("one", "two"):
            progress(word)
        return "done"

    operation = operations.run("talking", call, done=said.append)
    operation.progressed.connect(said.append)
    go.set()
    qtbot.waitUntil(lambda: "done" in said)
    assert said == ["one", "two", "done"]


@pytest.mark.parametrize("returns", [True, False], ids=["though it ends well", "at its next progress"])
def test_a_cancelled_one_gives_no_outcome(qtbot: QtBot, operations: Operations, returns: bool) -> None:
    found: list[object] = []
    go = threading.Event()

    def call(progress, cancel):  # type: ignore[no-untyped-def]
        go.wait(10)
        if not returns:
            progress("going on")
        return "done"

    operation = operations.run("waiting", call, done=found.append, failed=found.append)
    with qtbot.waitSignal(operation.cancelled):
        operation.cancel()
        go.set()
    assert found == []


def test_nothing_of_one_that_is_over_is_kept(qtbot: QtBot, operations: Operations) -> None:
    class Kept:
        pass

    kept: list[weakref.ref[Kept]] = []
    done: list[str] = []

    def begin() -> None:
        one = Kept()
        kept.append(weakref.ref(one))
        operations.run("quick", lambda _progress, _cancel: str(one), done=done.append)

    for _ in range(300):
        begin()
    qtbot.waitUntil(lambda: len(done) == 300)

    def none_is_kept() -> bool:
        gc.collect()
        return all(one() is None for one in kept)

    qtbot.waitUntil(none_is_kept)


def test_closing_cancels_what_runs_and_what_waits(qtbot: QtBot) -> None:
    operations = Operations()
    began = threading.Semaphore(0)

    def call(progress, cancel):  # type: ignore[no-untyped-def]
        began.release()
        while not cancel.wanted:
            cancel._event.wait(0.01)

    for number in range(6):
        operations.run(f"operation {number}", call)
    for _ in range(4):
        assert began.acquire(timeout=10)
    assert operations.close(10_000)
    assert not began.acquire(blocking=False)
