"""Cache of measurements between nodes, valid while the nodes are unchanged."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import locked
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.remote.trial import Measured, scripts
from torchdeck.launching.prepare import ClusterFacts

VERSION = 1
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
        env = {name: value for name, value in node.env.items() if name.endswith("_SOCKET_IFNAME")}
        nodes.append([node.name, node.address, node.nproc, list(node.devices), env, machine])
    content = json.dumps([VERSION, plan.backend, nodes, scripts()], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def recall(home: Path, key: str) -> tuple[Measured, float] | None:
    """Return the measurement stored under a fingerprint, and its age in seconds; None: nothing."""
    try:
        value = _read(home)[key]
        age = time.time() - float(value["time"])
        return Measured(float(value["latency"]), float(value["bandwidth"]), int(value["world_size"])), age
    except (KeyError, TypeError, ValueError):
        return None


def remember(home: Path, key: str, measured: Measured) -> None:
    """Store a measurement. Raises OSError."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(_path(home).with_suffix(".lock")):
        kept = {**_read(home), key: {"time": time.time(), **asdict(measured)}}
        newest = sorted(kept, key=lambda each: _time(kept[each]), reverse=True)[:KEPT]
        write_json(
            _path(home), {"v": VERSION, "measured": {each: kept[each] for each in newest}}, durable=False
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
