"""Which checkpoints a node of several can resume from, and the one that all of them can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchdeck.agent.attempt_plan import AttemptError
from torchdeck.agent.events import ResumePoint

OWN = "own"
ASKED = "asked"


def resume_points(
    policy: str,
    directory: Path,
    run_id: str,
    number: int,
    damaged: Callable[[str, str], None],
    *,
    first: bool,
) -> tuple[ResumePoint, ...]:
    """What attempt `number` can resume from on this node, best first.

    As `attempt_plan.resume_from` chooses for a node alone, but older ones are named too: another node may
    lack the newest.

    Args:
        policy: checkpoint.resume, as in the plan.
        directory: the run's checkpoint directory on this node.
        run_id: whose checkpoints later attempts go on with.
        number: of the attempt, from 1.
        damaged: told (path, why) of every checkpoint that was passed over for its hashes.
        first: this node hashes what all nodes share; the others only their own files.

    Raises:
        AttemptError: what it should resume from is not sound.
    """
    from torchdeck.distributed.checkpoints.choose import choose_checkpoint
    from torchdeck.distributed.checkpoints.manifest import CheckpointError

    try:
        own = _sound(directory, run_id, damaged, OWN, first=first) if number > 1 else ()
        if own or policy == "never":
            return own
        if policy == "auto":
            return _sound(directory, None, damaged, OWN, first=first)
        choice = choose_checkpoint(directory, policy)
        if choice.folder is None or choice.folder == Path(policy):
            return (ResumePoint(ASKED, "", choice.step),)
        return _sound(Path(policy), None, damaged, ASKED, first=first)
    except CheckpointError as error:
        raise AttemptError(f"cannot resume: {error}") from error


def common_point(offers: Mapping[str, Sequence[ResumePoint]]) -> ResumePoint | None:
    """The best one that every node has; None where nobody has any.

    Args:
        offers: by node, in order of node rank.

    Raises:
        AttemptError: some have checkpoints, and there is none that all have.
    """
    if not any(offers.values()):
        return None
    first, *others = offers.values()
    for point in first:
        if all(point in points for points in others):
            return point
    has = "; ".join(
        f"{node} has {', '.join(_shown(point) for point in points[:3]) or 'none'}"
        for node, points in offers.items()
    )
    raise AttemptError(
        f"cannot resume: no checkpoint is there on every node ({has}). Copy a node's missing part back, or "
        'start afresh with checkpoint.resume = "never"'
    )


def point_folder(point: ResumePoint, policy: str, directory: Path) -> Path:
    """Where the checkpoint lies on this node."""
    base = directory if point.source == OWN else Path(policy)
    return base / point.name if point.name else base


def check_point(folder: Path, point: ResumePoint) -> None:
    """Whether this node's part of the checkpoint is there.

    Raises:
        AttemptError: it is not, or it is of another step.
    """
    from torchdeck.distributed.checkpoints.listing import inspect
    from torchdeck.distributed.checkpoints.manifest import CheckpointError, read_manifest

    found = inspect(folder)
    try:
        step = found.step if found is not None else read_manifest(folder).step
    except CheckpointError as error:
        raise AttemptError(f"cannot resume from step {point.step}: {error}") from error
    if found is not None and not found.complete:
        raise AttemptError(f"cannot resume from step {point.step}: {found.why}")
    if step != point.step:
        raise AttemptError(f"cannot resume: {folder} holds step {step} here, and {point.step} on the lead")


def _sound(
    directory: Path,
    run_id: str | None,
    damaged: Callable[[str, str], None],
    source: str,
    *,
    first: bool,
) -> tuple[ResumePoint, ...]:
    if not directory.is_dir():
        return ()
    from torchdeck.distributed.checkpoints.choose import Refused, all_damaged, candidates, summary
    from torchdeck.distributed.checkpoints.verification import verify

    found: list[ResumePoint] = []
    refused: list[Refused] = []
    for info in candidates(directory, run_id):
        mine = info.manifest is not None and info.manifest.node is not None
        # the newest is hashed, as it is likely to be chosen: on every disk that has a part of it, once
        hashed = info.complete and not found and (first or mine)
        problems = verify(info.path) if hashed else [] if info.complete else [info.why]
        if problems:
            refused.append(Refused(info.path, summary(problems)))
            damaged(str(info.path), summary(problems))
        else:
            found.append(ResumePoint(source, info.path.name, info.step))
    if refused and not found:
        raise all_damaged(directory, refused)
    return tuple(found)


def _shown(point: ResumePoint) -> str:
    return point.name or f"step {point.step}"
