"""A run on several nodes of this machine: a run directory, an address and an agent each, no controller."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.agents.agent_run import CORE, FAKE_TORCHRUN, kill_all, living
from support.agents.agent_run import make_plan as plan_of_one
from support.waiting import wait_until
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import FORMAT_VERSION, NodeLayout, RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan, RankPlacement
from torchdeck.contract.processes import ProcessIdentity, processes_of_run

TOKEN = "the run's token"  # noqa: S105 - of a test
FAKE = (sys.executable, str(FAKE_TORCHRUN))
REAL = (sys.executable, "-m", "torch.distributed.run")
NAMES = ("alpha", "beta", "gamma")


class GangRun:
    """One run on nodes `alpha` (which leads), `beta`, `gamma`."""

    def __init__(self, home: Path, plan: LaunchPlan, secrets: Mapping[str, str] | None = None) -> None:
        self.run_id = f"run-{uuid.uuid4().hex[:12]}"
        self.plan = plan
        self.names = [node.name for node in plan.nodes]
        self.secrets = dict(secrets or {})
        self.layouts: dict[str, RunLayout] = {}
        self.agents: list[subprocess.Popen[bytes]] = []
        self.leader_address: tuple[str, int] | None = None
        for name in self.names:
            layout = RunLayout(home / f"home of {name}" / "runs" / self.run_id)
            layout.root.mkdir(parents=True, mode=0o700)
            write_json(layout.plan, plan.document())
            self.layouts[name] = layout

    def node(self, name: str) -> NodeLayout:
        return self.layouts[name].node(name)

    def start(self, *, through: tuple[str, int] | None = None, session: int = 0) -> GangRun:
        """Start the leader, and once it listens the followers; they reach it `through` another address."""
        self.start_agent(self.names[0], session=session)
        self.start_followers(through=through, session=session)
        return self

    def start_followers(self, *, through: tuple[str, int] | None = None, session: int = 0) -> None:
        listening = self.wait("listening", node=self.names[0]).fields
        self.leader_address = through or (str(listening["address"]), int(listening["port"]))
        for name in self.names[1:]:
            self.start_agent(name, session=session)

    def start_agent(self, name: str, *, session: int = 0, token: str = TOKEN) -> subprocess.Popen[bytes]:
        """Start the agent of one node as a link does."""
        argv = [sys.executable, "-I", "-B", str(CORE / "torchdeck/agent/__main__.py")]
        argv += ["--run-dir", str(self.layouts[name].root), "--node", name, "--life", str(session)]
        leader = self.leader_address if name != self.names[0] else None
        told = None if leader is None else {"address": leader[0], "port": leader[1]}
        node = self.node(name)
        node.root.mkdir(parents=True, exist_ok=True)
        with node.log.open("ab") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(json.dumps({"token": token, "lead": told, "secrets": self.secrets}).encode() + b"\n")
        self.agents.append(process)
        return process

    def events(self, name: str = "", *, node: str = "") -> list[Event]:
        found = read_journal(self.node(node or self.names[0]).journal)
        return [event for event in found if name in ("", event.name)]

    def wait(self, name: str, seconds: float = 40.0, *, node: str = "", count: int = 1) -> Event:
        """The event `name` in a node's journal (the leader's), once it stands there `count` times."""
        found = wait_until(
            lambda: events if len(events := self.events(name, node=node)) >= count else [],
            seconds,
            f"event {name} on {node or self.names[0]}:\n{self.describe()}",
        )
        return found[count - 1]

    def finished(self, seconds: float = 60.0) -> dict[str, Any]:
        """The last event's fields, once the run is finished and everything of it gone."""
        fields = dict(self.wait("finished", seconds).fields)
        wait_until(lambda: not self.alive(), 15, f"everything to end:\n{self.describe()}")
        return fields

    def request(self, kind: str) -> None:
        """Ask the leader as the controller does."""
        id_ = f"{uuid.uuid4().hex}-{kind}"
        inbox = self.node(self.names[0]).inbox
        inbox.mkdir(parents=True, exist_ok=True)
        write_json(inbox / f"{id_}.json", {"v": FORMAT_VERSION, "id": id_, "kind": kind, "origin": "test"})

    def stdout(self, rank: int, attempt: int = 1) -> str:
        """What a rank printed, on whichever node it ran."""
        paths = [layout.attempt(attempt).rank(rank).stdout for layout in self.layouts.values()]
        return "".join(path.read_text() for path in paths if path.exists())

    def wait_stdout(self, text: str, rank: int, seconds: float = 60.0, attempt: int = 1) -> None:
        wait_until(
            lambda: text in self.stdout(rank, attempt), seconds, f"{text!r} of rank {rank}: {self.describe()}"
        )

    def agent(self, name: str) -> ProcessIdentity | None:
        return living(ProcessIdentity.from_json(read_json(self.node(name).lock)))

    def held(self, name: str, what: str, attempt: int = 1) -> ProcessIdentity | None:
        """`shim` or `torchrun` of a node."""
        content = read_json(self.layouts[name].attempt(attempt).node(name).holder)
        return living(ProcessIdentity.from_json(content.get(what))) if isinstance(content, dict) else None

    def ranks(self, name: str, attempt: int = 1) -> list[int]:
        """Pids of the rank shims of a node."""
        found = self.layouts[name].attempt(attempt).ranks.glob("*/holder.pid")
        return [int(path.read_text()) for path in sorted(found)]

    def alive(self) -> list[ProcessIdentity]:
        """Living processes of the run, of its agents and shims."""
        for process in self.agents:
            process.poll()
        found = processes_of_run(self.run_id)
        for name, layout in self.layouts.items():
            numbers = layout.attempt_numbers()
            held = (self.held(name, what, number) for number in numbers for what in ("holder", "torchrun"))
            ours = [self.agent(name), *held]
            found += [process for process in ours if process is not None]
        return found

    def describe(self) -> str:
        text = []
        for name in self.names:
            log = self.node(name).log
            events = [(event.name, dict(event.fields)) for event in self.events(node=name)]
            lines = "\n".join(map(str, events))
            tail = log.read_text(errors="replace")[-3000:] if log.exists() else ""
            runs = sorted(self.layouts[name].attempts.glob("*/nodes/*/torchrun.log"))
            said = "".join(path.read_text(errors="replace")[-1500:] for path in runs)
            text.append(f"== {name}\n{lines}\n-- log\n{tail}\n-- torchrun\n{said}")
        return "\n".join(text)

    def clean_up(self) -> None:
        kill_all(self)


def make_gang_plan(
    command: Sequence[str],
    working_dir: Path,
    *,
    nprocs: Sequence[int] = (1, 1),
    torchrun: Sequence[str] = FAKE,
    addresses: Sequence[str] = ("127.0.0.1", "127.0.0.2", "127.0.0.3"),
    env: Mapping[str, str] | None = None,
    secrets: Sequence[str] = (),
    **plan: Any,
) -> LaunchPlan:
    """A plan of CPU ranks on as many nodes as `nprocs` has numbers; other keywords are `make_plan`'s."""
    one = plan_of_one(command, working_dir, torchrun=torchrun, **plan)
    template = one.nodes[0]
    nodes: list[NodePlan] = []
    ranks: list[RankPlacement] = []
    for node_rank, nproc in enumerate(nprocs):
        flags = {
            "--nnodes": str(len(nprocs)),
            "--nproc-per-node": str(nproc),
            "--node-rank": str(node_rank),
            "--master-addr": addresses[0],
        }
        argv = list(template.torchrun)
        for at, word in enumerate(argv[:-1]):
            argv[at + 1] = flags.get(word, argv[at + 1])
        name = NAMES[node_rank]
        nodes.append(
            dataclasses.replace(
                template,
                name=name,
                address=addresses[node_rank],
                node_rank=node_rank,
                nproc=nproc,
                torchrun=tuple(argv),
                env={
                    **template.env,
                    "TORCHDECK_NODE": name,
                    "GLOO_SOCKET_IFNAME": "lo",
                    "FAKE_FIRST_RANK": str(len(ranks)),
                    "FAKE_WORLD_SIZE": str(sum(nprocs)),
                    **(env or {}),
                },
                secrets=tuple(secrets),
            )
        )
        for local_rank in range(nproc):
            ranks.append(RankPlacement(len(ranks), name, node_rank, local_rank, "cpu"))
    return dataclasses.replace(one, world_size=len(ranks), ranks=tuple(ranks), nodes=tuple(nodes))


def gone_within(run: GangRun, seconds: float) -> float:
    """Seconds until no process of the ranks is left on any node; fails after `seconds`."""
    begun = time.monotonic()
    wait_until(lambda: not processes_of_run(run.run_id), seconds, f"every rank to be gone:\n{run.describe()}")
    return time.monotonic() - begun
