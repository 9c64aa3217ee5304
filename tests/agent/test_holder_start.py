"""A holder that was made beforehand, of a process that is loaded already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.open_files import open_files
from support.waiting import wait_until
from torchdeck.agent.processes.holder_start import PROCESS_NAME
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import ProcessIdentity

LIMIT = 30.0
NODE = "localhost"
# the tests' own process has threads; this one does what an agent does, and then dies or goes on
MAKER = """
import json, os, sys
from torchdeck.agent.processes.holder_start import HolderStart, spare_holder
what, told = sys.argv[1], json.loads(sys.argv[2])
spare = None if what == "program" else spare_holder()
if what != "program":
    print(spare._process.pid, flush=True)
lease = os.open(told["lease"], os.O_RDWR)
if what == "breaks off":
    spare._socket.sendall(b"0000000100only half")
if what in ("breaks off", "never gives"):
    os._exit(0)
if what == "is late":
    os.kill(spare._process.pid, 9)
    os.waitid(os.P_PID, spare._process.pid, os.WEXITED | os.WNOWAIT)
code = HolderStart([sys.executable, "-c", "pass"], spare).start(told["arguments"], told["order"], [lease])
print("started" if code() is None else "ended", flush=True)
sys.stdin.read()
os._exit(0)
"""
# what stands for torchrun: says what it has open, and waits to be let go
STAND_IN = """
import json, os, sys, time
found = {}
for name in os.listdir("/proc/self/fd"):
    try:
        found[name] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        pass
with open(sys.argv[1] + ".new", "w") as file:
    json.dump({"fds": found, "env": os.environ.get("MY_KEY"), "cwd": os.getcwd()}, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
sys.exit(3)
"""


class Attempt:
    """A run's first attempt on this machine, and a device's lease."""

    def __init__(self, folder: Path) -> None:
        self.layout = RunLayout(folder / "run")
        self.files = self.layout.attempt(1).node(NODE)
        self.files.root.mkdir(parents=True)
        self.layout.plan.touch()
        self.node = self.layout.node(NODE)
        self.node.root.mkdir(parents=True, exist_ok=True)
        self.lease = folder / "gpu.lock"
        self.lease.touch()
        self.shown, self.let_go = folder / "shown", folder / "go"
        self.told: dict[str, Any] = {
            "lease": str(self.lease),
            "arguments": ["--run-dir", str(self.layout.root), "--node", NODE, "--attempt", "1"],
            "order": {
                "argv": [sys.executable, "-c", STAND_IN, str(self.shown), str(self.let_go)],
                "env": {**os.environ, "MY_KEY": "geheim"},
                "cwd": str(folder),
                "handover": "",
            },
        }

    def maker(self, what: str) -> subprocess.Popen[str]:
        """A process that starts the holder."""
        self.told["arguments"] += ["--agent-pid", str(os.getpid())]
        return subprocess.Popen(
            [sys.executable, "-c", MAKER, what, json.dumps(self.told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def holder(self) -> ProcessIdentity:
        """Once it has started what stands for torchrun."""
        found = wait_until(lambda: read_json(self.files.holder), LIMIT, "the holder's file")
        identity = ProcessIdentity.from_json(found["holder"])
        assert identity is not None
        return identity

    def finish(self, holder: ProcessIdentity) -> None:
        """The stand-in ends, and the run."""
        with JournalWriter(self.node.journal) as journal:
            journal.append("finished", outcome="failed")
        self.let_go.touch()
        wait_until(lambda: not holder.is_alive(), LIMIT, "the holder to end")
        assert read_json(self.files.exit)["code"] == 3


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


@pytest.mark.parametrize("what", ["copy", "program", "is late"])
def test_it_holds_torchrun_and_leases_with_its_maker_gone(attempt: Attempt, what: str) -> None:
    """Be it a copy, a program, or a program because the copy had died."""
    with attempt.maker(what) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        spare = None if what == "program" else int(maker.stdout.readline())
        assert maker.stdout.readline() == "started\n"
        holder = attempt.holder()
        assert (holder.pid == spare) is (what == "copy")
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()
        assert (name == PROCESS_NAME) is (what == "copy")
        maker.stdin.close()
        assert maker.wait(LIMIT) == 0
    shown = wait_until(lambda: read_json(attempt.shown), LIMIT, "what stands for torchrun")
    assert (shown["env"], shown["cwd"]) == ("geheim", str(attempt.shown.parent))
    # its input and output, the folder that it looks into, and nothing of ours
    assert shown["fds"].pop("0") == "/dev/null"
    assert not any("gpu.lock" in path or "socket" in path for path in shown["fds"].values()), shown
    assert attempt.lease in open_files(holder.pid)
    assert os.getsid(holder.pid) == holder.pid
    attempt.finish(holder)


@pytest.mark.parametrize("what", ["never gives", "breaks off"])
def test_one_that_gets_no_order_ends(attempt: Attempt, what: str) -> None:
    """Its maker is gone, before it said anything or in mid-sentence: nothing is started."""
    with attempt.maker(what) as maker:
        assert maker.stdout is not None
        spare = ProcessIdentity.of(int(maker.stdout.readline()))
        assert maker.wait(LIMIT) == 0
    wait_until(lambda: spare is None or not spare.is_alive(), LIMIT, "the copy to end")
    assert not attempt.files.holder.exists()
    assert not attempt.shown.exists()
