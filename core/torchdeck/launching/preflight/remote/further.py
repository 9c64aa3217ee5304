"""Extended checks of `check` beyond those of every launch: a few seconds of real torchrun on the nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.preflight.remote.probe_sessions import probe_sessions_with
from torchdeck.launching.preflight.remote.remembered import fingerprint, recall, remember
from torchdeck.launching.preflight.remote.trial import Limits, Measured, run_trial
from torchdeck.launching.prepare import ClusterFacts
from torchdeck.nodes.connector import Connector
from torchdeck.plan.check import Check, failed, ok, warning
from torchdeck.quantities import size

NAME = "all-reduce"
REACH_LIMIT = 10.0


def check_further(
    plan: LaunchPlan,
    found: ClusterFacts,
    reach: Connector,
    before: Sequence[Check],
    *,
    again: bool = False,
    limits: Limits | None = None,
) -> list[Check]:
    """Return one check for each node: the all-reduce between all of them, with its measurements.

    Args:
        plan: plan with several ranks.
        found: facts of the nodes.
        reach: connector to the nodes.
        before: the quick checks; if one of them failed, nothing is started.
        again: measure even if nothing has changed since the last time.
        limits: timeouts without progress.
    """
    names = [node.name for node in plan.nodes]
    bad = next((check for check in before if check.status == "failed"), None)
    if bad is not None:
        fix = f"first mend what failed ({bad.name} on {bad.node})"
        return [warning(NAME, name, "not tried", fix) for name in names]
    key = fingerprint(plan, found)
    known = None if again else recall(reach.home, key)
    if known is not None:
        return [ok(NAME, name, f"{_said(known[0], plan)}, measured {_ago(known[1])} ago") for name in names]
    with probe_sessions_with(plan.nodes, reach, REACH_LIMIT) as talks:
        if talks.refused:
            fix = "look at the node, and try again"
            return [failed(NAME, name, why, fix) for name, why in talks.refused.items()]
        measured = run_trial(talks.with_node, plan, limits)
    if measured.why:
        fix = "look at its interface, firewall and libraries (`torchdeck nodes probe --deep`)"
        return [failed(NAME, measured.node, measured.why, fix)]
    with contextlib.suppress(OSError):  # measured again next time
        remember(reach.home, key, measured)
    return [ok(NAME, name, _said(measured, plan)) for name in names]


def _said(measured: Measured, plan: LaunchPlan) -> str:
    speed = f"{measured.latency * 1e3:.2f} ms, {size(int(measured.bandwidth))}/s"
    return f"all-reduce of {measured.world_size} ranks over {plan.backend}: {speed}"


def _ago(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
