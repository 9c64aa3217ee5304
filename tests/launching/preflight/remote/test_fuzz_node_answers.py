"""Hostile answers to what the checks before a start ask nodes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.links.saying_process import SayingProcess
from support.values.machines import config, node, plan
from torchdeck.launching.preflight.remote.nodes import check_connections, check_leases
from torchdeck.launching.preflight.remote.shared import disks_of
from torchdeck.launching.preflight.remote.trial import MARK, Limits, run_trial
from torchdeck.nodes.probe.connections import connect_all
from torchdeck.nodes.probe.probe_session import ProbeError, ProbeSession

PLAN = plan(config(distributed={"nodes": ["n1", "n2"]}), node("n1", gpus=1), node("n2", gpus=1))
NAMES = ("n1", "n2")
MEASURED = '{"stage": "measured", "rank": 0, "latency": 0.1, "bandwidth": 1.0, "world_size": 2}'
ANSWERS = (
    {
        "v": 1,
        "port": 4000,
        "reached": [{"node": "n2", "ok": True, "latency": 0.1, "bandwidth": 1.0, "error": ""}],
    },
    {"v": 1, "name": "mark", "seen": ["mark"]},
    {"v": 1, "owners": {"0": {"run_id": "r", "name": "n"}}},
    {"v": 1, "port": 4000, "code": 0, "errors": "", "lines": [f"{MARK}{MEASURED}"]},
)


def ask_everything(case: bytes, _place: Path) -> None:
    def probe_sessions() -> Mapping[str, ProbeSession]:
        return {name: ProbeSession(SayingProcess(case), name) for name in NAMES}

    def connected() -> None:
        found = connect_all(probe_sessions(), dict.fromkeys(NAMES, "127.0.0.1"))
        assert all(
            isinstance(str(check), str) for check in check_connections(found, dict.fromkeys(NAMES, "a"))
        )

    def measured() -> None:
        found = run_trial(probe_sessions(), PLAN, Limits(imports=0.02, stuck=0.02))
        assert all(math.isfinite(value or 0.0) for value in (found.latency, found.bandwidth))

    asked: tuple[Callable[[], object], ...] = (
        connected,
        measured,
        lambda: disks_of(probe_sessions(), dict.fromkeys(NAMES, "/x")),
        lambda: list(check_leases(PLAN.nodes, probe_sessions(), dict.fromkeys(NAMES, "/x"), queue=False)),
    )
    for ask in asked:
        with contextlib.suppress(ProbeError):
            ask()


def test_answers_to_checks() -> None:
    read_all(ask_everything, hostile.documents(*ANSWERS))
