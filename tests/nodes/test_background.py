"""Threads that may sit in a question: a process that is told to end waits for none of them."""

import os
import signal
import subprocess
import sys
import termios
import threading
from concurrent.futures import wait
from functools import partial

import pytest

from torchdeck.nodes.background import in_background, on_each

LIMIT = 30.0
ASKING = """
import fcntl, termios
from pathlib import Path
from torchdeck.cli.terminal_ui import TerminalAsker
from torchdeck.nodes.background import in_background
from torchdeck.nodes.ssh.target import SshTarget
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
target = SshTarget("n1", "host", 22, "root")
asker = TerminalAsker()
questions = {{
    "password": lambda: asker.password(target, again=False),
    "trust": lambda: asker.trust(target, "ssh-ed25519", "SHA256:x"),
}}
try:
    (asked,) = in_background([questions["{question}"]], 1, "asking")
    print("answer", asked.result(), flush=True)
except KeyboardInterrupt:
    raise SystemExit(7)
"""


def test_calls_are_made_so_many_at_once_and_keep_their_order() -> None:
    """What one raises is its own."""
    futures = in_background([partial(int, text) for text in ("1", "two", "3")], 2, "calls")
    wait(futures, LIMIT)
    assert (futures[0].result(), futures[2].result()) == (1, 3)
    with pytest.raises(ValueError, match="two"):
        futures[1].result()
    assert in_background([], 2, "calls") == []


@pytest.mark.processes
@pytest.mark.parametrize(
    ("question", "prompt", "answer"), [("password", "Password of", "secret"), ("trust", "(yes/no)", "True")]
)
@pytest.mark.parametrize("interrupted", [True, False])
def test_ctrl_c_ends_a_process_that_asks(
    question: str, prompt: str, answer: str, *, interrupted: bool
) -> None:
    """The terminal shows what is typed afterwards; answered, the question is."""
    ours, theirs = os.openpty()
    code = ASKING.format(question=question)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        try:
            _read_until(ours, prompt)
            if interrupted:
                process.send_signal(signal.SIGINT)
            else:
                os.write(ours, b"secret\n" if question == "password" else b"yes\n")
                _read_until(ours, f"answer {answer}")
            assert process.wait(LIMIT) == (7 if interrupted else 0)
            assert termios.tcgetattr(theirs)[3] & termios.ECHO
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)


def _read_until(terminal: int, text: str) -> None:
    read = ""
    while text not in read:
        read += os.read(terminal, 4096).decode()


def test_a_call_for_each_item_is_made_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30.0)

    def meet(item: str) -> tuple[str, bool]:
        return item, both.wait() < 2

    assert on_each(("a", "b"), meet, "meeting") == [("a", True), ("b", True)]
    assert on_each((), meet, "meeting") == []


def test_an_error_of_one_item_comes_after_calls_that_were_begun() -> None:
    begun, failed = threading.Event(), threading.Event()
    over: list[str] = []

    def call(item: str) -> None:
        if item == "bad":
            begun.wait(LIMIT)
            failed.set()
            raise ValueError(item)
        begun.set()
        failed.wait(LIMIT)
        over.append(item)

    with pytest.raises(ValueError, match="bad"):
        on_each(("bad", "good"), call, "calls")
    assert over == ["good"]
