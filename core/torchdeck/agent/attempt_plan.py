"""Fills the slots of one attempt: a free port, and the checkpoint to resume from."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torchdeck.plan.launch_plan import LaunchPlan
from torchdeck.plan.slots import fill, slot
from torchdeck.rundir.atomic import write_json
from torchdeck.rundir.layout import RunLayout


class AttemptError(Exception):
    """An attempt cannot start: what it should resume from is not usable."""


class PreparedAttempt(NamedTuple):
    """An attempt whose plan.json is written."""

    number: int
    plan: LaunchPlan
    port: int
    resume: str
    """Path of the checkpoint, empty to start afresh."""
    resume_step: int | None


def prepare_attempt(
    layout: RunLayout,
    plan: LaunchPlan,
    number: int,
    shipped: Path,
    damaged: Callable[[str, str], None],
) -> PreparedAttempt:
    """Choose port and checkpoint, write attempts/<n>/plan.json.

    Args:
        layout: the run.
        plan: the run's plan, slots empty.
        number: of the attempt, from 1.
        shipped: the folder with our package, for the ranks' PYTHONPATH.
        damaged: told (path, why) of every checkpoint that was passed over for its hashes.

    Raises:
        AttemptError: the checkpoint that was asked for by its path is not sound.
        OSError: the plan cannot be written, or no port can be had.
    """
    values = {"run_id": layout.root.name, "run_dir": str(layout.root), "attempt": str(number)}
    directory = Path(fill(plan.checkpoint.directory, values))
    resume, step = choose_checkpoint(plan.checkpoint.resume, directory, values["run_id"], number, damaged)
    port = free_port() if slot("port") in _texts(plan) else _written_port(plan)
    filled = plan.filled({**values, "port": str(port), "resume": resume, "shipped": str(shipped)})
    attempt = layout.attempt(number)
    attempt.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(attempt.plan, filled.document())
    return PreparedAttempt(number, filled, port, resume, step)


def choose_checkpoint(
    policy: str, directory: Path, run_id: str, number: int, damaged: Callable[[str, str], None]
) -> tuple[str, int | None]:
    """(path, step) of what attempt `number` resumes from; ("", None) to start afresh.

    `policy` is for the first attempt: `auto` takes the newest in `directory`, `never` none, a path exactly
    that one. Later attempts go on with the newest that this run itself saved, else as the first did.

    Raises:
        AttemptError: `policy` is a path and what lies there is not a sound checkpoint.
    """
    if number > 1:
        own = _newest_sound(directory, run_id, damaged)
        if own is not None:
            return own
    if policy == "never":
        return "", None
    if policy == "auto":
        return _newest_sound(directory, None, damaged) or ("", None)
    from torchdeck.distributed.checkpoints.manifest import CheckpointError, read_manifest, verify

    folder = Path(policy)
    problems = verify(folder)
    if problems:
        raise AttemptError(
            f"cannot resume from {folder}: {problems[0]}. Name a sound checkpoint, or resume = 'auto'"
        )
    try:
        return str(folder), read_manifest(folder).step
    except CheckpointError as error:
        raise AttemptError(f"cannot resume from {folder}: {error}") from error


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now.

    Raises:
        OSError: there is none.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _newest_sound(
    directory: Path, run_id: str | None, damaged: Callable[[str, str], None]
) -> tuple[str, int] | None:
    if not directory.is_dir():
        return None
    from torchdeck.distributed.checkpoints.manifest import CheckpointError, list_checkpoints, verify

    try:
        found = list_checkpoints(directory)
    except CheckpointError as error:
        damaged(str(directory), str(error))
        return None
    for info in reversed(found):
        if info.manifest is None and not info.complete and info.path.name.startswith("."):
            continue  # what an interrupted save left, known as such
        if run_id is not None and info.manifest is not None and info.manifest.run_id != run_id:
            continue
        problems = verify(info.path) if info.complete else [info.why]
        if not problems:
            return str(info.path), info.step
        damaged(str(info.path), problems[0])
    return None


def _texts(plan: LaunchPlan) -> str:
    return "\n".join(text for node in plan.nodes for text in (*node.argv, *node.env.values()))


def _written_port(plan: LaunchPlan) -> int:
    argv = plan.nodes[0].torchrun
    flag = argv.index("--master-port") if "--master-port" in argv else -1
    return int(argv[flag + 1]) if flag >= 0 and argv[flag + 1].isdecimal() else 0
