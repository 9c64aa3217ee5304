"""A run directory made by hand and an agent on it, without controller, config or planner."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from support.waiting import wait_until
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import FORMAT_VERSION, RunLayout
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan, NodePlan, RankPlacement
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.processes import ProcessIdentity, processes_of_run

CORE = Path(__file__).resolve().parents[3] / "core"
FAKE_TORCHRUN = Path(__file__).resolve().parents[2] / "fakes" / "torchrun.py"
NODE = "localhost"
QUICK = Policy(kill_grace=1.0, stop_grace=5.0, restart_delay=0.1)


class AgentRun:
    """One run: its directory, and the agent that was started on it last."""

    def __init__(self, home: Path, plan: LaunchPlan, *, run_id: str | None = None) -> None:
        self.layout = RunLayout(home / "runs" / (run_id or f"run-{uuid.uuid4().hex[:12]}"))
        self.layout.root.mkdir(parents=True, mode=0o700)
        self.node = self.layout.node(NODE)
        self.plan = plan
        write_json(self.layout.plan, plan.document())
        self.agents: list[subprocess.Popen[bytes]] = []

    @property
    def run_id(self) -> str:
        return self.layout.root.name

    def start(self, *, python: str = sys.executable, core: Path = CORE) -> AgentRun:
        """Start an agent as a transport does."""
        main = core / "torchdeck/agent/__main__.py"
        argv = [python, "-I", "-B", str(main), "--run-dir", str(self.layout.root), "--node", NODE]
        self.node.root.mkdir(parents=True, exist_ok=True)
        with self.node.log.open("ab") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.agents.append(process)
        return self

    def events(self, name: str = "") -> list[Event]:
        return [event for event in read_journal(self.node.journal) if name in ("", event.name)]

    def wait(self, name: str, seconds: float = 60.0, *, count: int = 1) -> Event:
        """The event `name`, once it stands in the journal `count` times."""
        found = wait_until(
            lambda: events if len(events := self.events(name)) >= count else [],
            seconds,
            f"event {name} of {self.describe()}",
        )
        return found[count - 1]

    def finished(self, seconds: float = 40.0) -> dict[str, Any]:
        """The last event's fields, once the run is finished and the agent gone."""
        fields = dict(self.wait("finished", seconds).fields)
        wait_until(lambda: not self.alive(), 10, f"agent and holder to end: {self.describe()}")
        return fields

    def describe(self) -> str:
        names = [(event.name, dict(event.fields)) for event in self.events()]
        log = self.node.log.read_text(errors="replace") if self.node.log.exists() else ""
        return f"{self.layout.root}\n{names}\n{log}"

    def request(self, kind: str) -> str:
        """Ask as the controller does."""
        id_ = f"{uuid.uuid4().hex}-{kind}"
        value = {"v": FORMAT_VERSION, "id": id_, "kind": kind, "origin": "test"}
        self.node.inbox.mkdir(parents=True, exist_ok=True)
        write_json(self.node.inbox / f"{id_}.json", value)
        return id_

    def heartbeat(self) -> dict[str, Any]:
        value = read_json(self.node.heartbeat)
        return value if isinstance(value, dict) else {}

    def holder_json(self, attempt: int = 1) -> dict[str, Any]:
        value = read_json(self.layout.attempt(attempt).node(NODE).holder)
        return value if isinstance(value, dict) else {}

    def agent(self) -> ProcessIdentity | None:
        return living(ProcessIdentity.from_json(read_json(self.node.lock)))

    def holder(self, attempt: int = 1) -> ProcessIdentity | None:
        return living(ProcessIdentity.from_json(self.holder_json(attempt).get("holder")))

    def torchrun(self, attempt: int = 1) -> ProcessIdentity | None:
        return living(ProcessIdentity.from_json(self.holder_json(attempt).get("torchrun")))

    def rank_file(self, rank: int, name: str, attempt: int = 1) -> Path:
        return self.layout.attempt(attempt).rank(rank).root / name

    def stdout(self, rank: int = 0, attempt: int = 1) -> str:
        path = self.layout.attempt(attempt).rank(rank).stdout
        return path.read_text() if path.exists() else ""

    def wait_stdout(self, text: str, rank: int = 0, seconds: float = 30.0, attempt: int = 1) -> None:
        wait_until(lambda: text in self.stdout(rank, attempt), seconds, f"{text!r}: {self.describe()}")

    def alive(self) -> list[ProcessIdentity]:
        """Living processes of the run, of its agents and shims.

        torchrun by its identity, too: an exiting process lives on for a moment without its environment.
        """
        for process in self.agents:
            process.poll()
        numbers = self.layout.attempt_numbers()
        ours = [self.agent(), *(find(number) for number in numbers for find in (self.holder, self.torchrun))]
        return [*processes_of_run(self.run_id), *(process for process in ours if process is not None)]

    def clean_up(self) -> None:
        kill_all(self)


ENVIRONMENT = {
    "TORCHDECK_RUN_ID": "@{run_id}",
    "TORCHDECK_RUN_DIR": "@{run_dir}",
    "TORCHDECK_ATTEMPT": "@{attempt}",
    "TORCHDECK_RESUME": "@{resume}",
    "PYTHONPATH": "@{shipped}",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
}
"""Of every rank, as the planner writes it."""


def make_plan(
    command: Sequence[str],
    working_dir: Path,
    *,
    nproc: int = 2,
    policy: Policy = QUICK,
    torchrun: Sequence[str] | None = None,
    devices: tuple[str, ...] = (),
    kind: str = "script",
    resume: str = "auto",
    stdout: StdoutPolicy = StdoutPolicy(enabled=True),  # noqa: B008 - frozen
    env: dict[str, str] | None = None,
    name: str = "test",
) -> LaunchPlan:
    """A plan as the planner makes it, for one node of CPU ranks."""
    node = NodePlan(
        name=NODE,
        address="127.0.0.1",
        node_rank=0,
        nproc=nproc,
        devices=devices,
        working_dir=str(working_dir),
        torchrun=_torchrun(torchrun, nproc),
        rank_holder=("/bin/sh", "@{shipped}/torchdeck/agent/processes/rank_holder.sh"),
        command=tuple(command),
        env={**ENVIRONMENT, **(env or {})},
        unset=("PET_*",),
    )
    return LaunchPlan(
        name=name,
        kind=kind,
        target="script.py",
        strategy="ddp",
        backend="gloo",
        world_size=nproc,
        ranks=tuple(RankPlacement(rank, NODE, 0, rank, "cpu") for rank in range(nproc)),
        nodes=(node,),
        batch=None,
        checkpoint=CheckpointPolicy("@{run_dir}/checkpoints", resume, None, 3),
        stdout=stdout,
        policy=policy,
        slots={},
        code=CodeTree(),
    )


def _torchrun(program: Sequence[str] | None, nproc: int) -> tuple[str, ...]:
    """The command line of torchrun on one node, or of the one that stands in for it."""
    flags = f"--nnodes 1 --nproc-per-node {nproc} --node-rank 0 --rdzv-backend static --max-restarts 0"
    meeting = ("--master-addr", "127.0.0.1", "--master-port", "@{port}")
    signals = ("--signals-to-handle", "SIGTERM,SIGINT,SIGQUIT") if program else ()
    started = program or (sys.executable, str(FAKE_TORCHRUN))
    return (*started, *flags.split(), *meeting, *signals, "--no-python")


def script(folder: Path, text: str, name: str = "script.py") -> tuple[str, ...]:
    """Command line of a Python script with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return (sys.executable, "-u", str(path))


def with_policy(**changes: Any) -> Policy:
    return dataclasses.replace(QUICK, **changes)


class Supervised(Protocol):
    """A run that agents were started on."""

    agents: list[subprocess.Popen[bytes]]

    @property
    def run_id(self) -> str: ...

    def alive(self) -> list[ProcessIdentity]: ...

    def clean_up(self) -> None: ...


def kill_all(run: Supervised) -> None:
    """SIGKILL to all of it, repeatedly, as shims restart agents."""

    def gone() -> bool:
        alive = run.alive()
        for process in alive:
            process.send(signal.SIGKILL)
        return not alive

    wait_until(gone, 20, f"processes of {run.run_id} to end")
    for agent in run.agents:
        agent.wait(10)


def living(identity: ProcessIdentity | None) -> ProcessIdentity | None:
    return identity if identity is not None and identity.is_alive() else None


@contextlib.contextmanager
def cleaning(runs: Sequence[Supervised]) -> Iterator[None]:
    """Whatever happens in the test, nothing of its runs is left."""
    try:
        yield
    finally:
        for run in runs:
            run.clean_up()


Maker = Callable[..., AgentRun]
