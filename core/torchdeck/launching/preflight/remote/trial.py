"""Trial of torchrun and one all-reduce on the nodes of a plan; every wait has a timeout, and names a node."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.layout import Home
from torchdeck.contract.node_requests import ProbeRequest
from torchdeck.contract.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.distributed.trial import pairs as pairs_script
from torchdeck.distributed.trial.pairs import Pair, Speed, better
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession, understood

MARK = "torchdeck-trial "
SIZE = 16 * 2**20
"""Bytes of the all-reduce by which bandwidth is measured."""
ALL = 150.0
"""Seconds after which a node ends its trial by itself."""
ASK_LIMIT = 10.0
START_LIMIT = 20.0
POLL = 0.1
STAGES = ("asked", "torchrun", "started", "imported", "joined", "reduced", "paired", "measured", "done")
_WORDS = {
    "asked": "torchrun has not started: importing torch takes too long there",
    "torchrun": "its torchrun waits for the others",
    "started": "importing torch takes too long",
    "imported": "it waits for the others to join",
    "joined": "its all-reduce does not finish",
    "reduced": "it is blocked while pairs of ranks exchange data",
    "paired": "it is blocked while the all-reduce is measured",
    "measured": "it is blocked at the end",
}
_PROGRESS = {
    "asked": "starting torchrun",
    "torchrun": "starting ranks",
    "started": "importing torch",
    "imported": "connecting ranks",
    "joined": "first all-reduce",
    "reduced": "measuring pairs of ranks",
    "paired": "measuring the all-reduce",
    "measured": "ending ranks",
    "done": "ending ranks",
}
_OF_PAIRS = frozenset({"device", "pairing", "pair"})
MOST_LINES = 10_000
"""Lines about pairs that are read from one node."""
SENT_VARIABLES = ("GLOO_", "NCCL_", "CUDA_", "OMP_", "TORCH_", "TP_")
"""Name prefixes of a plan's variables that configure communication between ranks."""


@dataclass(frozen=True)
class Limits:
    """Timeouts in seconds without any progress."""

    imports: float = 60.0
    """While torch is imported, which takes long from a cold disk."""
    stuck: float = 15.0
    """Otherwise."""


def _nothing() -> None:
    """Never cancel."""


@dataclass(frozen=True)
class Waiting:
    """Calls while the nodes are busy."""

    progress: Callable[[str], None] = lambda _text: None
    check: Callable[[], None] = _nothing
    """Raises if the user has cancelled."""


@dataclass(frozen=True)
class Measured:
    """Result of a trial."""

    latency: float = 0.0
    """Seconds for an all-reduce of one number."""
    bandwidth: float = 0.0
    """Bytes per second of a large one."""
    world_size: int = 0
    node: str = ""
    """Node with a problem; empty if all is well."""
    why: str = ""
    pairs: Mapping[Pair, Speed] = field(default_factory=dict)
    """Speeds of the pairs of ranks, the better of two measurements."""
    devices: Mapping[int, GpuSpeed] = field(default_factory=dict)
    """Speed of each rank's GPU; empty on CPUs."""


class GpuSpeed(NamedTuple):
    """Speed of one GPU by itself."""

    name: str
    compute: float
    """Multiply-adds/s of a product of bf16 matrices."""
    copy: float
    """Bytes/s from main memory."""


@dataclass
class _Part:
    """Progress of one node in the trial."""

    ranks: range
    stage: str = "asked"
    """Stage of torchrun itself."""
    stages: dict[int, str] = field(default_factory=dict)
    code: int | None = None
    errors: str = ""
    why: str = ""
    measured: dict[str, Any] = field(default_factory=dict)
    pairing: dict[int, int] = field(default_factory=dict)
    """Rank → peer with which it has begun to exchange data."""
    pairs: dict[Pair, Speed] = field(default_factory=dict)
    devices: dict[int, GpuSpeed] = field(default_factory=dict)
    lines: int = 0
    """Results of pairs so far."""

    @property
    def least(self) -> str:
        """Stage of its slowest process."""
        if len(self.stages) < len(self.ranks):
            return self.stage
        return min(self.stages.values(), key=STAGES.index)

    def reached(self, rank: int, stage: str) -> None:
        """Record a rank's stage. No rank goes back, and there are no more ranks than requested."""
        if rank in self.stages or len(self.stages) < len(self.ranks):
            self.stages[rank] = max(self.stages.get(rank, STAGES[0]), stage, key=STAGES.index)


def run_trial(
    probe_sessions: Mapping[str, ProbeSession],
    plan: LaunchPlan,
    limits: Limits | None = None,
    homes: Mapping[str, str] | None = None,
    waiting: Waiting | None = None,
) -> Measured:
    """Start torchrun on all nodes with one script, follow it, and end it in every case.

    Args:
        probe_sessions: probe sessions with every node of the plan, in its order.
        plan: backend, ranks, addresses and variables.
        limits: timeouts without progress.
        homes: Torchdeck's home on nodes whose ranks have an environment that uv has made.
        waiting: shows progress and cancels; an exception from it ends the trial on all nodes.
    """
    homes, waiting = homes or {}, waiting or Waiting()
    nodes = list(plan.nodes)
    with ThreadPoolExecutor(len(nodes), thread_name_prefix="trial") as pool:
        try:
            first = nodes[0]
            answer = probe_sessions[first.name].ask(ProbeRequest.FREE_PORT, ASK_LIMIT, address=first.address)
            with understood(first.name):
                port = int(answer["port"])
            # a run id for each node: process namespaces may overlap
            run_id = f"trial-{secrets.token_hex(8)}"
            starts = [
                pool.submit(
                    probe_sessions[node.name].ask,
                    ProbeRequest.TRIAL,
                    START_LIMIT,
                    **_order(node, plan, port, f"{run_id}-{node.name}"),
                    **_made_python(node, homes.get(node.name)),
                )
                for node in nodes
            ]
            for start in starts:
                start.result()
            return _follow(probe_sessions, plan, pool, limits or Limits(), waiting)
        except ProbeError as error:
            return Measured(node=_named(str(error), nodes), why=str(error))
        finally:
            list(pool.map(lambda node: _end(probe_sessions[node.name]), nodes))


def scripts() -> dict[str, str]:
    """Return the scripts to send, by name: torchrun's, the ranks', and the modules of the package that both
    need.
    """
    folder = Path(pairs_script.__file__).parents[1]
    trial = ("start.py", "rank.py", "pair_rank.py", "pairs.py")
    paths = (folder / name for name in (*(f"trial/{each}" for each in trial), "store/listening_socket.py"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def ranks_of_nodes(plan: LaunchPlan) -> list[list[int]]:
    """Return the ranks of each node, in the order of the plan, as torchrun numbers them."""
    first = itertools.accumulate((node.nproc for node in plan.nodes), initial=0)
    return [list(range(begin, begin + node.nproc)) for begin, node in zip(first, plan.nodes, strict=False)]


def _made_python(node: NodePlan, home: str | None) -> dict[str, str]:
    """Return the Python of a node's environment, as a field of the request; none for its own Python."""
    if node.environment is None or home is None:
        return {}
    return {"python": str(Home(Path(home)).environments / node.environment.key / "bin" / "python")}


def _order(node: NodePlan, plan: LaunchPlan, port: int, run_id: str) -> dict[str, Any]:
    env = {
        name: value
        for name, value in node.env.items()
        if name.startswith(SENT_VARIABLES) and "@{" not in value
    }
    torchrun = [
        *("--nnodes", str(len(plan.nodes)), "--nproc-per-node", str(node.nproc)),
        *(
            "--node-rank",
            str(node.node_rank),
            "--rdzv-backend",
            "static",
            "--rdzv-id",
            run_id.rpartition("-")[0],
        ),
        *("--master-addr", plan.nodes[0].address, "--master-port", str(port)),
        *("--max-restarts", "0", "--log-dir", "@/logs"),
    ]
    rank = ["@/rank.py", plan.backend, str(SIZE), str(ALL), json.dumps(ranks_of_nodes(plan))]
    return {
        "run_id": run_id,
        "files": scripts(),
        "arguments": ["@/start.py", *torchrun, *rank],
        "env": env,
        "seconds": ALL,
    }


def _follow(
    probe_sessions: Mapping[str, ProbeSession],
    plan: LaunchPlan,
    pool: ThreadPoolExecutor,
    limits: Limits,
    waiting: Waiting,
) -> Measured:
    parts: dict[str, _Part] = {}
    for node in plan.nodes:
        parts[node.name] = _Part(range(node.nproc))
    moved = time.monotonic()
    until = moved + ALL
    while True:
        looks = {
            name: pool.submit(probe_sessions[name].ask, ProbeRequest.TRIAL_LOOK, ASK_LIMIT) for name in parts
        }
        news = []
        for name, look in looks.items():
            with understood(name):
                news.append(_take(parts[name], look.result()))
        now = time.monotonic()
        moved = now if any(news) else moved
        failed = next((name for name, part in parts.items() if part.why), None) or next(
            (name for name, part in parts.items() if part.code), None
        )
        if failed is not None:
            return Measured(node=failed, why=f"node {failed}: {_failure(parts[failed])}")
        if all(part.code == 0 for part in parts.values()):
            return _result(parts)
        importing = any(part.least in ("asked", "started") for part in parts.values())
        if now - moved > (limits.imports if importing else limits.stuck) or now > until:
            return _stuck(parts, now - moved)
        waiting.check()
        waiting.progress(_progress(parts))
        time.sleep(POLL)


def _progress(parts: Mapping[str, _Part]) -> str:
    """Return what the slowest node does."""
    least = min((part.least for part in parts.values()), key=STAGES.index)
    pairs = sum(len(part.pairs) for part in parts.values())
    return f"{pairs} pairs measured" if least == "reduced" and pairs else _PROGRESS[least]


def _take(part: _Part, answer: Mapping[str, Any]) -> bool:
    """Process a node's output since the last poll. Return whether it has made progress."""
    before = part.code, part.stage, dict(part.stages), part.lines
    part.code = answer["code"] if isinstance(answer["code"], int) else None
    part.errors = str(answer["errors"])
    said = [line[len(MARK) :] for line in map(str, answer["lines"]) if line.startswith(MARK)]
    for text in said:
        try:
            line = parse_json_object(text.encode("utf-8", "replace"))
            stage, rank = str(line["stage"]), line.get("rank")
        except (JsonError, KeyError):
            continue  # interleaved with another line
        if stage == "failed":
            part.why = part.why or str(line.get("why"))
        elif stage in _OF_PAIRS and isinstance(rank, int):
            _take_pair(part, stage, rank, line)
        elif stage in STAGES and isinstance(rank, int):
            part.reached(rank, stage)
            part.measured = line if stage == "measured" else part.measured
        elif stage in STAGES:
            part.stage = max(part.stage, stage, key=STAGES.index)
    return (part.code, part.stage, part.stages, part.lines) != before


def _take_pair(part: _Part, stage: str, rank: int, line: Mapping[str, Any]) -> None:
    """Process a line about an exchange of data, or a rank's own GPU. What is impossible is ignored."""
    if part.lines >= MOST_LINES or (rank not in part.stages and len(part.stages) >= len(part.ranks)):
        return
    with contextlib.suppress(KeyError, TypeError, ValueError):
        if stage == "device":
            part.devices[rank] = GpuSpeed(
                str(line["name"])[:100], _positive(line["compute"]), _positive(line["copy"])
            )
        elif stage == "pairing":
            part.pairing[rank] = int(line["peer"])
        else:
            part.pairing.pop(rank, None)
            speed = Speed(_positive(line["latency"]), _positive(line["bandwidth"]))
            if rank < int(line["peer"]):
                part.pairs = better(part.pairs, {(rank, int(line["peer"])): speed})
        part.lines += 1


def _positive(value: object) -> float:
    """Return a speed. Raises ValueError."""
    if not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(value)
    return float(value)


def _failure(part: _Part) -> str:
    if part.why:
        return part.why
    lines = [line for line in part.errors.strip().splitlines() if line.strip()]
    return f"torchrun ended with exit code {part.code}: {lines[-1] if lines else 'it printed nothing'}"


def _stuck(parts: Mapping[str, _Part], seconds: float) -> Measured:
    """Report the node that is furthest behind: it blocks the others."""
    least = min((part.least for part in parts.values()), key=STAGES.index)
    if least == "reduced" and (found := _stuck_pair(parts, seconds)) is not None:
        return found
    behind = [name for name, part in parts.items() if part.least == least]
    who = f"node {behind[0]}" if len(behind) == 1 else f"nodes {', '.join(behind)}"
    return Measured(node=behind[0], why=f"{who}: no progress for {seconds:.0f} s: {_WORDS[least]}")


def _stuck_pair(parts: Mapping[str, _Part], seconds: float) -> Measured | None:
    """Report the first pair that does not finish; None if no rank is in one."""
    node_of = {rank: name for name, part in parts.items() for rank in (*part.stages, *part.pairing)}
    for name, part in parts.items():
        for rank, peer in sorted(part.pairing.items()):
            other = node_of.get(peer, name)
            ranks = f"ranks {min(rank, peer)} and {max(rank, peer)}"
            what = f"{ranks} (nodes {name} and {other}) exchange data endlessly: check their connection"
            return Measured(node=name, why=f"node {name}: no progress for {seconds:.0f} s: {what}")
    return None


def _result(parts: Mapping[str, _Part]) -> Measured:
    pairs = {pair: speed for part in parts.values() for pair, speed in part.pairs.items()}
    devices = {rank: speed for part in parts.values() for rank, speed in part.devices.items()}
    for part in parts.values():
        line = part.measured
        try:
            return Measured(
                float(line["latency"]),
                float(line["bandwidth"]),
                int(line["world_size"]),
                pairs=pairs,
                devices=devices,
            )
        except (KeyError, TypeError, ValueError):
            continue
    first = next(iter(parts))
    return Measured(node=first, why=f"node {first}: the trial ended without a measurement")


def _end(probe_session: ProbeSession) -> None:
    """End the trial of a node. If it cannot be signalled, it ends by itself with the session or its
    timeout.
    """
    try:
        probe_session.ask(ProbeRequest.TRIAL_END, ASK_LIMIT)
    except Exception:  # noqa: BLE001 - whatever the connection does now, the outcome is known
        return


def _named(text: str, nodes: list[NodePlan]) -> str:
    return next((node.name for node in nodes if f"node {node.name}" in text), nodes[0].name)
