"""Fills the slots of one attempt: a free port, and the checkpoint to resume from."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.attempt.resume_points import SCRIPT, AttemptError, check_point, point_folder
from torchdeck.agent.attempt.script_resume import continued, continued_together, with_checkpoint
from torchdeck.agent.gang.events import ResumePoint
from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill, slot

STARTUP = "torchdeck/trainers/inside/startup"
"""Folder of the sitecustomize module, in the runtime bundle."""
LOOPBACK = "127.0.0.1"


class PreparedAttempt(NamedTuple):
    """An attempt whose plan.json is written."""

    number: int
    plan: LaunchPlan
    port: int
    resume: str
    """Path of the checkpoint, empty to start over."""
    resume_step: int | None
    from_scratch: str = ""
    """Why a script begins from the beginning although it saved a checkpoint; empty otherwise."""


class Given(NamedTuple):
    """The leader's choices for an attempt on several nodes."""

    port: int
    resume: ResumePoint | None
    node: str
    """Node that gets the message."""
    leads: bool
    """It writes the attempt's plan; the others one of their own."""


def prepare_attempt(
    layout: RunLayout,
    plan: LaunchPlan,
    number: int,
    shipped: Path,
    damaged: Callable[[str, str], None],
    given: Given | None = None,
    asked: Sequence[str] = (),
    environment: str = "",
) -> PreparedAttempt:
    """Choose port and checkpoint, write attempts/<n>/plan.json.

    Args:
        layout: the run.
        plan: the run's plan, slots empty.
        number: of the attempt, from 1.
        shipped: the folder of the runtime bundle, for the ranks' PYTHONPATH.
        damaged: called with (path, why) of every checkpoint that was skipped because of its hashes.
        given: port and checkpoint, if the leader has chosen them for all nodes.
        asked: arguments with which a script continues, as `runs resume` was given them.
        environment: folder of the environment of this node's ranks; empty if they use an existing Python.

    Raises:
        AttemptError: the requested checkpoint is not sound, or none of the existing ones is.
        OSError: the plan cannot be written, or no port is available.
    """
    values = {**slot_values(layout, number), "code": code_folder(layout, plan), "environment": environment}
    directory = Path(fill(plan.checkpoint.directory, values))
    if given is None:
        own = continued(layout, plan, number, asked)
        policy = "never" if own.path else plan.checkpoint.resume
        resume, step = resume_from(policy, directory, values["run_id"], number, damaged)
        port = choose_port(plan)
    else:
        own = continued_together(layout, plan, given.node, given.resume, asked)
        resume, step = _given_checkpoint(given, plan.checkpoint.resume, directory)
        port = given.port
    values |= {"port": str(port), "resume": resume, "shipped": str(shipped), "node_path": _node_path()}
    values["inside"] = f":{shipped / STARTUP}"
    filled = plan.filled(values)
    if not resume:
        filled = with_checkpoint(filled, own)
        resume, step = own.path, own.step
    attempt = layout.attempt(number)
    path = attempt.plan if given is None or given.leads else attempt.node(given.node).plan
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(path, filled.document())
    return PreparedAttempt(number, filled, port, resume, step, "" if resume else own.from_scratch)


def slot_values(layout: RunLayout, number: int) -> dict[str, str]:
    """Return the slots that are known from the beginning of attempt `number`."""
    return {"run_id": layout.root.name, "run_dir": str(layout.root), "attempt": str(number)}


def _node_path() -> str:
    """Return the value of the slot `node_path`: an empty entry of a PYTHONPATH would be the working
    directory.
    """
    own = os.environ.get("PYTHONPATH", "").strip(":")
    return f":{own}" if own else ""


def code_folder(layout: RunLayout, plan: LaunchPlan) -> str:
    """The run's own copy of the user's code, which every attempt executes; raises AttemptError without it."""
    if plan.code.folder and not layout.code.is_dir():
        raise AttemptError(f"the run's own copy of the code no longer exists: {layout.code}; start a new run")
    return str(layout.code)


def describe_size(plan: LaunchPlan, full: LaunchPlan, node: str) -> dict[str, Any]:
    """Return the journal fields of a node on an attempt's size, by its plan and the run's.

    If they are for all nodes, `node` is empty, and devices are left out.
    """
    batch = plan.batch
    smaller = plan.world_size < full.world_size
    return {
        "world_size": plan.world_size,
        "devices": plan.node(node).devices if node else (),
        "global_batch": None if batch is None else batch.global_batch,
        "accumulation": None if batch is None else batch.accumulation,
        "rendezvous": plan.rendezvous,
        "notes": plan.warnings if smaller else (),
    }


def resume_from(
    policy: str, directory: Path, run_id: str, number: int, damaged: Callable[[str, str], None]
) -> tuple[str, int | None]:
    """(path, step) of what attempt `number` resumes from; ("", None) to start over.

    `policy` is for the first attempt; later ones continue with the newest that this run itself saved, else as
    the first did.

    Raises:
        AttemptError: what it should resume from is not sound.
    """
    if policy in ("auto", "never") and not directory.is_dir():
        return "", None
    # hashing and JSON are for those who resume: a first start is quicker without them
    from torchdeck.contract.checkpoints.choose import choose_checkpoint
    from torchdeck.contract.checkpoints.manifest import CheckpointError

    try:
        choice = choose_checkpoint(
            directory, "auto" if number > 1 else policy, run_id=run_id if number > 1 else None
        )
        if number > 1 and choice.folder is None:
            choice = choose_checkpoint(directory, policy)
    except CheckpointError as error:
        raise AttemptError(f"cannot resume: {error}") from error
    for refused in choice.refused:
        damaged(str(refused.folder), refused.why)
    return ("", None) if choice.folder is None else (str(choice.folder), choice.step)


def choose_port(plan: LaunchPlan) -> int:
    """The rendezvous port of an attempt: as the config says, else a free one where its ranks meet.

    Raises:
        OSError: there is none.
    """
    if slot("port") not in _texts(plan):
        return _written_port(plan)
    return free_port(LOOPBACK if len(plan.nodes) == 1 else plan.nodes[0].address)


def free_port(address: str = LOOPBACK) -> int:
    """Return a TCP port of this machine that is free now.

    Args:
        address: of the port; one that is another machine's name for this one means any.

    Raises:
        OSError: there is none.
    """
    with socket.socket(family_of(address)) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


def family_of(address: str) -> socket.AddressFamily:
    """IPv6 if the address is an IPv6 literal, else IPv4."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _given_checkpoint(given: Given, policy: str, directory: Path) -> tuple[str, int | None]:
    if given.resume is None or given.resume.source == SCRIPT:
        return "", None
    folder = point_folder(given.resume, policy, directory)
    check_point(folder, given.resume)
    return str(folder), given.resume.step


def _texts(plan: LaunchPlan) -> str:
    return "\n".join(text for node in plan.nodes for text in (*node.argv, *node.env.values()))


def _written_port(plan: LaunchPlan) -> int:
    argv = plan.nodes[0].torchrun
    flag = next((at for at, word in enumerate(argv) if word in ("--master-port", "--rdzv-endpoint")), -1)
    text = argv[flag + 1].rpartition(":")[2] if flag >= 0 else ""
    return int(text) if text.isdecimal() else 0
