"""A process that is a copy of another: what it shares, and how its end is told."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from torchdeck.agent.processes.forked_process import CRASHED, has_one_thread

# the tests' own process has threads
PARENT = """
import json, os, signal, sys, time
from pathlib import Path
from torchdeck.agent.processes.forked_process import forked, has_one_thread

assert has_one_thread()
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
nothing = os.open(os.devnull, os.O_RDONLY)
print("said before", end="")  # stays the parent's, though it was not written yet
atexit_ran = Path(sys.argv[1] + ".atexit")
import atexit
atexit.register(atexit_ran.touch)

def run():
    what = sys.argv[2]
    if what == "shows":
        found = [int(name) for name in os.listdir("/proc/self/fd")]
        fds = sorted(fd for fd in found if os.path.exists(f"/proc/self/fd/{fd}"))
        print(json.dumps({"sid": os.getsid(0), "pid": os.getpid(), "fds": fds,
            "hangup": signal.getsignal(signal.SIGHUP) == signal.SIG_DFL,
            "comm": Path("/proc/self/comm").read_text().strip(), "read": sys.stdin.read()}))
        return 0
    if what == "raises":
        raise ValueError("words")
    if what == "exits":
        sys.exit(7)
    if what == "exits with words":
        sys.exit("words")
    if what == "just exits":
        sys.exit()
    if what == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return 5

child = forked(run, "a name that is longer than Linux keeps", nothing, output)
until = time.monotonic() + 30
while (code := child.exit_code()) is None and time.monotonic() < until:
    time.sleep(0.01)
assert child.exit_code() == code
assert not atexit_ran.exists()
print(json.dumps(code))
"""


def run(tmp_path: Path, what: str) -> tuple[int, str]:
    """How the copy ended, and what it wrote."""
    output = tmp_path / "output"
    argv = [sys.executable, "-c", PARENT, str(output), what]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    before, _, code = done.stdout.partition("said before")
    assert not before
    return json.loads(code), output.read_text()


def test_it_has_a_session_a_name_and_no_descriptor_of_the_other(tmp_path: Path) -> None:
    """And writes nothing that the other had not written yet."""
    code, written = run(tmp_path, "shows")
    assert code == 0
    shown = json.loads(written)
    assert shown["sid"] == shown["pid"]
    assert shown["fds"] == [0, 1, 2]
    assert shown["comm"] == "a name that is"
    assert shown["read"] == ""
    assert shown["hangup"]


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("returns", 5, ""),
        ("exits", 7, ""),
        ("just exits", 0, ""),
        ("exits with words", 1, "words"),
        ("is killed", -signal.SIGKILL, ""),
        ("raises", CRASHED, "words"),
    ],
)
def test_its_end_is_told(tmp_path: Path, what: str, code: int, said: str) -> None:
    """Nothing of it goes on in what comes after the call in the other."""
    found, written = run(tmp_path, what)
    assert found == code
    assert said in written
    assert bool(written) == bool(said)


def test_threads_are_counted() -> None:
    """By the system: others than Python's count too."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait, args=(60,))
    thread.start()
    try:
        assert not has_one_thread()
    finally:
        done.set()
        thread.join()
