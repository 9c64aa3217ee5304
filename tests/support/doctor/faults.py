"""Faults that make a distributed training hang, and what the doctor should say of each."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from torchdeck.agent.doctor.evidence import Kind

WITH_HEARTBEAT = {
    "PYTHONPATH": "@{shipped}@{inside}",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "@{port}",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Variables of ranks that have a heartbeat, and meet at the attempt's port."""


class Fault(NamedTuple):
    """One way to hang."""

    name: str
    body: str
    """Statements of `fault()`, called by the culprit in step 40; `# HERE` marks the line to be named."""
    kind: Kind
    everywhere: bool = False
    """All ranks call it."""
    line: bool = True
    """The line of `# HERE` is to be named."""
    blames: bool = True
    """The culprit is to be named."""


FAULTS = (
    Fault("sleeps", "time.sleep(10**6)  # HERE", Kind.ELSEWHERE),
    Fault("spins", "while True:  # HERE\n    pass  # HERE", Kind.ELSEWHERE),
    Fault("spins-with-calls", "while not flags:  # HERE\n    flags.copy()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-lock", "lock = threading.Lock()\nlock.acquire()\n"
          "lock.acquire()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-queue", "queue.Queue().get()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-thread", "t = threading.Thread(target=time.sleep, args=(10**6,), daemon=True)\n"
          "t.start()\nt.join()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-socket", "a, b = socket.socketpair()\na.recv(1)  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-pipe", "a, b = os.pipe()\nos.read(a, 1)  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-child", 'subprocess.run(["sleep", "1000000"])  # HERE', Kind.ELSEWHERE),
    Fault("waits-for-a-file-lock", 'f = open(__file__)\nfcntl.flock(f, fcntl.LOCK_EX)\ng = open(__file__)\n'
          "fcntl.flock(g, fcntl.LOCK_EX)  # HERE", Kind.ELSEWHERE),
    Fault("reads-standard-input", "a, b = os.pipe()\nos.dup2(a, 0)\ninput()  # HERE", Kind.ELSEWHERE),
    Fault("retries-for-ever", "while True:\n    try:\n        raise OSError\n    except OSError:\n"
          "        time.sleep(0.2)  # HERE", Kind.ELSEWHERE),
    Fault("asks-a-future", "Future().result()  # HERE", Kind.ELSEWHERE),
    Fault("skips-a-collective", "while True:\n    time.sleep(0.1)  # HERE", Kind.ELSEWHERE),
    Fault("holds-pythons-lock", "a, b = os.pipe()\nbuffer = ctypes.create_string_buffer(1)\n"
          "ctypes.PyDLL(None).read(a, buffer, 1)  # HERE", Kind.NATIVE),
    Fault("blocks-in-native-code", "a, b = os.pipe()\nbuffer = ctypes.create_string_buffer(1)\n"
          "ctypes.CDLL(None).read(a, buffer, 1)  # HERE", Kind.ELSEWHERE),
    Fault("computes-in-native-code", "re.match('(a+)+$', 'a' * 60 + 'b')  # HERE", Kind.NATIVE),
    Fault("stops-itself", "os.kill(os.getpid(), signal.SIGSTOP)", Kind.STOPPED, line=False),
    Fault("another-operation", "dist.broadcast(x, 0)  # HERE", Kind.MISMATCH),
    Fault("another-barrier", "dist.barrier()  # HERE", Kind.MISMATCH),
    Fault("another-group", "dist.all_reduce(x, group=first)  # HERE", Kind.MISMATCH, everywhere=False),
    Fault("waits-for-nothing-sent", "dist.recv(x, src=(rank + 1) % world)  # HERE", Kind.ELSEWHERE),
    Fault("data-loader-worker-hangs", "next(iter(DataLoader(Slow(), num_workers=1)))  # HERE", Kind.DATA),
    Fault("data-set-hangs", "next(iter(DataLoader(Slow())))", Kind.DATA, line=False),
    Fault("waits-for-a-condition", "changed = threading.Condition()\nwith changed:\n"
          "    changed.wait()  # HERE", Kind.ELSEWHERE),
    Fault("deadlocks-with-a-thread", "lock = threading.RLock()\n"
          "t = threading.Thread(target=lock.acquire, daemon=True)\nt.start()\nt.join()\n"
          "lock.acquire()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-an-event", "threading.Event().wait()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-semaphore", "threading.Semaphore(0).acquire()  # HERE", Kind.ELSEWHERE),
    Fault("waits-at-a-barrier-of-threads", "threading.Barrier(2).wait()  # HERE", Kind.ELSEWHERE),
    Fault("polls", "select.select([], [], [])  # HERE", Kind.ELSEWHERE),
    Fault("runs-an-event-loop", "asyncio.run(asyncio.sleep(10**6))  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-pool", "with ThreadPoolExecutor() as pool:\n"
          "    pool.submit(time.sleep, 10**6).result()  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-process", "fork = multiprocessing.get_context('fork')\n"
          "p = fork.Process(target=time.sleep, args=(10**6,))\n"
          "p.start()\np.join()  # HERE", Kind.ELSEWHERE),
    Fault("downloads", "s = socket.create_server(('127.0.0.1', 0))\n"
          "urllib.request.urlopen(f'http://127.0.0.1:{s.getsockname()[1]}')  # HERE", Kind.ELSEWHERE),
    Fault("opens-a-fifo", "name = f'fifo-{os.getpid()}'\nos.mkfifo(name)\n"
          "open(name)  # HERE", Kind.ELSEWHERE),
    Fault("writes-to-a-full-pipe", "a, b = os.pipe()\nos.write(b, bytes(1 << 22))  # HERE", Kind.ELSEWHERE),
    Fault("waits-for-a-key", "store = dist.distributed_c10d._get_default_store()\n"
          "store.wait(['never'])  # HERE", Kind.ELSEWHERE),
    Fault("sleeps-in-backward", "y = torch.ones(2, requires_grad=True)\n"
          "y.register_hook(lambda _: time.sleep(10**6))\ny.sum().backward()", Kind.ELSEWHERE, line=False),
    Fault("sleeps-in-a-recursion", "def down(n):\n    return down(n - 1) if n else time.sleep(10**6)\n"
          "down(50)", Kind.ELSEWHERE, line=False),
    Fault("gathers", "dist.all_gather([x.clone() for _ in range(world)], x)  # HERE", Kind.MISMATCH),
    Fault("all-sleep", "time.sleep(10**6)  # HERE", Kind.ELSEWHERE, everywhere=True),
)  # fmt: skip

SCRIPT = """
import asyncio, ctypes, fcntl, multiprocessing, os, queue, re, select, signal, socket, subprocess, sys
import threading, time, urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        time.sleep(10**6)

def fault():
{body}

def step(number):
    time.sleep(0.02)
    dist.all_reduce(x)

if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    flags = []
    first = dist.new_group(list(range(world)))
    x = torch.ones(1024)
    for number in range(10**9):
        if number == 40 and ({everywhere} or rank == {culprit}):
            fault()
        step(number)
        {report}
"""
REPORTS = {"silent": "pass", "prints": 'rank or print(f"step {number} loss: 0.5", flush=True)'}
"""Program → what it reports of its progress."""


def program(fault: Fault, culprit: int, report: str) -> str:
    """The script's text."""
    body = textwrap.indent(fault.body, "    ")
    return SCRIPT.format(body=body, everywhere=fault.everywhere, culprit=culprit, report=REPORTS[report])


def lines(text: str) -> list[int]:
    """The lines that may be named."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "# HERE" in line]
