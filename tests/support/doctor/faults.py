"""Faults that make a distributed training hang, and what the doctor should say of each."""

from __future__ import annotations

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
    """One way to hang, or to pause for long without a hang."""

    name: str
    body: str
    """Statements of `fault()`, called by the culprit in one step; `# HERE` marks the line to be named."""
    kind: Kind
    """WORKING: no hang."""
    everywhere: bool = False
    """All ranks call it."""
    line: bool = True
    """The line of `# HERE` is to be named."""

    @property
    def hangs(self) -> bool:
        return self.kind is not Kind.WORKING


LEAVE_A_CHILD = "if os.fork() == 0:\n    time.sleep(10**6)\n"
"""A child that has the sockets, too: when its parent ends, the other ranks' connections stay open."""
TRACE = """
import ctypes, os, signal, sys, time
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
for thread in os.listdir(f"/proc/{pid}/task"):
    if libc.ptrace(16, int(thread), None, None):  # PTRACE_ATTACH
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
time.sleep(10**6)
"""
"""Stops all threads of a process, as a debugger does."""

# gloo aborts a rank that receives more than it expects: of other shapes and types only an empty tensor hangs
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
    Fault("another-shape", "dist.all_reduce(torch.ones(0))", Kind.MISMATCH, line=False),
    Fault("another-type", "dist.all_reduce(torch.ones(0, dtype=torch.float64))", Kind.MISMATCH, line=False),
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
    Fault("returns-early", LEAVE_A_CHILD + "os._exit(0)", Kind.ABSENT, line=False),
    Fault("dies-unnoticed", LEAVE_A_CHILD + "os.kill(os.getppid(), signal.SIGSTOP)\n"
          "os.kill(os.getpid(), signal.SIGKILL)", Kind.DEAD, line=False),
    Fault("is-held-by-a-debugger", f"ctypes.CDLL(None).prctl(0x59616d61, -1)  # PR_SET_PTRACER\n"
          f"subprocess.run([sys.executable, '-c', {TRACE!r}, str(os.getpid())])", Kind.STOPPED, line=False),
    Fault("writes-to-a-frozen-disk", "subprocess.run(['fsfreeze', '--freeze', disk], check=True)\n"
          "open(disk + '/file', 'w')", Kind.DISK, line=False),
)  # fmt: skip

HEALTHY = (
    Fault("compilation", "layers = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(12)))\n"
          "torch.compile(layers)(torch.ones(4, 32))", Kind.WORKING, everywhere=True),
    Fault("evaluation-by-one-rank", "def evaluate(product, until):\n    while time.monotonic() < until:\n"
          "        product = (product @ product).tanh()\n"
          "evaluate(torch.randn(300, 300), time.monotonic() + 8)", Kind.WORKING),
    Fault("saves-by-one-rank", "for _ in range(12):\n"
          "    torch.save({'a': torch.randn(6_000_000)}, 'checkpoint.pt')", Kind.WORKING),
    Fault("slow-workers", "for _ in DataLoader(Working(), batch_size=8, num_workers=1):\n"
          "    dist.all_reduce(x)", Kind.WORKING, everywhere=True),
    Fault("preparation-in-python", "table = {}\nfor number in range(3_000_000):\n"
          "    table[number] = str(number)\njson.loads(json.dumps(list(table.values())))", Kind.WORKING),
    Fault("a-program-of-one-rank", "burn = 'import time\\nuntil = time.monotonic() + 7\\n"
          "while time.monotonic() < until: pass'\n"
          "subprocess.run([sys.executable, '-c', burn])", Kind.WORKING),
)  # fmt: skip
"""Long pauses that are no hangs."""


def lines(text: str) -> list[int]:
    """The lines that may be named."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "# HERE" in line]
