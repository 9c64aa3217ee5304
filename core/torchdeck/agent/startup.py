"""Start of an agent: the lock, the plan, and what earlier agents of the run left."""

from __future__ import annotations

import os
from pathlib import Path

from torchdeck.agent.attempt.attempt_plan import describe_size
from torchdeck.agent.gang.recovered_state import RecoveredState, replay
from torchdeck.contract.atomic import read_json
from torchdeck.contract.journal import Event, read_journal
from torchdeck.contract.layout import NodeLayout, RunLayout
from torchdeck.contract.lock_file import try_lock
from torchdeck.contract.plan.launch_plan import LaunchPlan, PlanFormatError
from torchdeck.contract.processes import ProcessIdentity
from torchdeck.contract.rank_layout import AttemptNodeLayout
from torchdeck.contract.run_states import StartReason
from torchdeck.contract.waiting import wait_for

LOOKED_AT = 0.2
"""Seconds in which a process that only checks for a live agent (`lock_file.is_held`) releases its lock."""
HOLDER_LIMIT = 3.0
"""Seconds a shim may take from its start until it has started torchrun."""


def take_lock(path: Path) -> int | None:
    """The agent's lock, held until this process ends; None when another agent has it."""
    identity = ProcessIdentity.of(os.getpid())
    # the shim reads from it which agent to watch; without it, on a full disk, it polls the lock
    owner = None if identity is None else identity.to_json()
    return wait_for(lambda: try_lock(path, owner), LOOKED_AT, LOOKED_AT / 10)


def read_plan(layout: RunLayout) -> LaunchPlan:
    """The run's plan, its slots empty.

    Raises:
        PlanFormatError: it is not there, damaged or from a newer Torchdeck.
    """
    try:
        return LaunchPlan.from_json(read_json(layout.plan))
    except PlanFormatError as error:
        raise PlanFormatError(f"{layout.plan}: {error}") from error


def session_of_run(layout: RunLayout) -> int:
    """How often the run had finished when it was last resumed, by the controller's journal if it is here."""
    counts = [
        event.fields.get("finished") for event in read_journal(layout.journal) if event.name == "resumed"
    ]
    return max((count for count in counts if isinstance(count, int)), default=0)


def read_recovered_state(
    layout: RunLayout, node: NodeLayout, name: str, session: int
) -> tuple[RecoveredState, Event | None]:
    """Return the journaled state; include the start of an attempt that was not journaled, if the agent died
    in between.
    """
    recovered = replay(read_journal(node.journal), session)
    if recovered.open or recovered.finishes > session:
        return recovered, None
    number = _next_number(layout, recovered, name)
    held = _holder_of(layout.attempt(number).node(name))
    if not isinstance(held, dict) or held.get("torchrun") is None:
        return recovered, None
    attempt = layout.attempt(number)
    plan = _attempt_plan(attempt.node(name).plan) or _attempt_plan(attempt.plan)
    fields = {
        "attempt": number,
        "port": None,
        "resume": "" if plan is None else plan.node(name).env.get("TORCHDECK_RESUME", ""),
        "resume_step": None,
        "reason": recovered.restart_reason or StartReason.FIRST,
        "holder": held.get("holder"),
        **({} if plan is None else describe_size(plan, read_plan(layout), name)),
    }
    started = Event("attempt_started", 0.0, 0.0, fields)
    return recovered, started


def _holder_of(files: AttemptNodeLayout) -> object:
    """Read the shim's file; wait for one that was just started, or its torchrun would be unsupervised."""
    wait_for(lambda: read_json(files.holder) is not None or not files.root.is_dir(), HOLDER_LIMIT, 0.02)
    return read_json(files.holder)


def _next_number(layout: RunLayout, recovered: RecoveredState, name: str) -> int:
    """The attempt that this node may have begun and not journaled.

    The leader has journaled it for all; a follower may have missed some.
    """
    if recovered.launching is not None:
        return recovered.attempt
    begun = [number for number in layout.attempt_numbers() if layout.attempt(number).node(name).root.is_dir()]
    return max([recovered.attempt + 1, *begun])


def _attempt_plan(path: Path) -> LaunchPlan | None:
    try:
        return LaunchPlan.from_json(read_json(path))
    except PlanFormatError:
        return None
