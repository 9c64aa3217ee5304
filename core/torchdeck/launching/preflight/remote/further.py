"""Extended checks of `check` beyond those of every launch: a few seconds of real torchrun on the nodes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import locked
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.distributed.trial.pairs import Speed
from torchdeck.launching.preflight.remote.pair_checks import check_pairs
from torchdeck.launching.preflight.remote.probe_sessions import probe_sessions_with
from torchdeck.launching.preflight.remote.trial import (
    GpuSpeed,
    Limits,
    Measured,
    Waiting,
    run_trial,
    scripts,
)
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.nodes.connector import Connector
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.quantities import size

NAME = "all-reduce"
REACH_LIMIT = 10.0


def check_further(
    plan: LaunchPlan,
    found: ClusterFacts,
    connector: Connector,
    before: Sequence[Check],
    *,
    again: bool = False,
    limits: Limits | None = None,
    waiting: Waiting | None = None,
) -> list[Check]:
    """Return the checks of all nodes together: the all-reduce between them, and every pair of them.

    Args:
        plan: plan with several ranks.
        found: facts of the nodes.
        connector: connector to the nodes.
        before: the quick checks; if one of them failed, nothing is started.
        again: measure even if nothing has changed since the last time.
        limits: timeouts without progress.
        waiting: shows progress and cancels.
    """
    names = [node.name for node in plan.nodes]
    bad = next((check for check in before if check.status == "failed"), None)
    if bad is not None:
        fix = f"first fix what failed ({bad.name} on {bad.node})"
        return [warning(NAME, name, "not tried", fix) for name in names]
    unmade = [
        node.name for node in plan.nodes if node.environment is not None and not node.environment.is_made
    ]
    if unmade:
        what = f"not tried: uv makes the environment on {', '.join(unmade)} at the start"
        return [warning(NAME, name, what, "check again after the first run") for name in names]
    key = fingerprint(plan, found)
    known = None if again else recall(connector.home, key)
    if known is not None:
        ago = f", measured {_ago(known[1])} ago"
        return [
            *(ok(NAME, name, f"{_said(known[0], plan)}{ago}") for name in names),
            *check_pairs(plan, known[0]),
        ]
    with probe_sessions_with(plan.nodes, connector, REACH_LIMIT) as probe_sessions:
        if probe_sessions.refused:
            fix = "check the node, then try again"
            return [failed(NAME, name, why, fix) for name, why in probe_sessions.refused.items()]
        measured = run_trial(probe_sessions.with_node, plan, limits, _homes(found, connector), waiting)
    if measured.why:
        fix = "look at its interface, firewall and libraries (`torchdeck nodes probe --deep`)"
        return [failed(NAME, measured.node, measured.why, fix)]
    with contextlib.suppress(OSError):  # measured again next time
        remember(connector.home, key, measured)
    return [*(ok(NAME, name, _said(measured, plan)) for name in names), *check_pairs(plan, measured)]


def _homes(found: ClusterFacts, connector: Connector) -> dict[str, str]:
    """Return Torchdeck's home on each node."""
    probed = {name: each.facts for name, each in found.remote.probed.items()}
    there = {name: facts.home for name, facts in probed.items() if facts is not None}
    return {LOCALHOST: str(connector.home), **there}


def _said(measured: Measured, plan: LaunchPlan) -> str:
    speed = f"{measured.latency * 1e3:.2f} ms, {size(int(measured.bandwidth))}/s"
    return f"all-reduce of {measured.world_size} ranks over {plan.backend}: {speed}"


def _ago(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


# Cache of measurements between nodes, valid while the nodes are unchanged.

VERSION = 2
KEPT = 64
"""Number of node sets in the cache; the oldest are evicted."""


def fingerprint(plan: LaunchPlan, found: ClusterFacts) -> str:
    """Return a fingerprint of everything a measurement depends on: nodes, boots, addresses, Pythons, torch,
    ranks, backend.
    """
    nodes = []
    for node in plan.nodes:
        probed = found.remote.probed.get(node.name)
        facts = None if probed is None else probed.facts
        python = found.interpreters.get(node.name)
        machine: list[Any] = []
        if facts is not None:
            own = facts.python
            machine = [facts.system.host, facts.system.boot, facts.system.kernel, facts.gpu.driver]
            machine += [own.executable, own.version, own.torch, own.cuda, own.nccl]
        elif python is not None:
            machine = [python.executable, python.python, python.torch]
        machine += [] if node.environment is None else [node.environment.key]
        env = {name: value for name, value in node.env.items() if name.endswith("_SOCKET_IFNAME")}
        nodes.append([node.name, node.address, node.nproc, list(node.devices), env, machine])
    content = json.dumps([VERSION, plan.backend, nodes, scripts()], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def recall(home: Path, key: str) -> tuple[Measured, float] | None:
    """Return the measurement stored under a fingerprint, and its age in seconds; None: nothing."""
    try:
        value = _read(home)[key]
        age = time.time() - float(value["time"])
        return _from_json(value), age
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def remember(home: Path, key: str, measured: Measured) -> None:
    """Store a measurement. Raises OSError."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(_path(home).with_suffix(".lock")):
        kept = {**_read(home), key: {"time": time.time(), **_to_json(measured)}}
        newest = sorted(kept, key=lambda each: _time(kept[each]), reverse=True)[:KEPT]
        write_json(
            _path(home), {"v": VERSION, "measured": {each: kept[each] for each in newest}}, durable=False
        )


def _to_json(measured: Measured) -> dict[str, Any]:
    return {
        "latency": measured.latency,
        "bandwidth": measured.bandwidth,
        "world_size": measured.world_size,
        "pairs": [[*pair, *speed] for pair, speed in measured.pairs.items()],
        "devices": [[rank, *speed] for rank, speed in measured.devices.items()],
    }


def _from_json(value: Mapping[str, Any]) -> Measured:
    return Measured(
        float(value["latency"]),
        float(value["bandwidth"]),
        int(value["world_size"]),
        pairs={(int(a), int(b)): Speed(float(c), float(d)) for a, b, c, d in value["pairs"]},
        devices={int(a): GpuSpeed(str(b), float(c), float(d)) for a, b, c, d in value["devices"]},
    )


def _path(home: Path) -> Path:
    return Home(home).measured_nodes


def _read(home: Path) -> dict[str, Any]:
    value = read_json(_path(home))
    measured = value.get("measured") if isinstance(value, Mapping) and value.get("v") == VERSION else None
    return dict(measured) if isinstance(measured, dict) else {}


def _time(value: Any) -> float:
    try:
        return float(value["time"])
    except (KeyError, TypeError, ValueError):
        return 0.0
