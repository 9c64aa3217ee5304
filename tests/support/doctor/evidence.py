"""Evidence on ranks, as agents collect it."""

from __future__ import annotations

from typing import Any

from torchdeck.agent.doctor.evidence import Collective, Frame, Group, RankEvidence

TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
WAITING = (Frame(TORCH, 3252, "all_reduce", calls=True), Frame("/code/train.py", 61, "step"))
SAVING = (Frame("/code/train.py", 84, "save_model", calls=True), Frame("/code/train.py", 61, "main"))


def call(
    sequence: int, *, group: str = "0", operation: str = "all_reduce", count: int = 1024, **more: Any
) -> Collective:
    """A collective of one tensor of floats."""
    return Collective(group, sequence, f"gloo:{operation}", f"[[{count}]]", "Float", **more)


def rank(number: int, *, of: int = 4, **more: Any) -> RankEvidence:
    """A living rank that has made no progress for 40 s of 30."""
    usual: dict[str, Any] = {
        "pid": 1000 + number,
        "state": "S",
        "still": 40.0,
        "limit": 30.0,
        "known": True,
        "beating": True,
        "groups": (Group("0", tuple(range(of)), "default_pg"),),
    }
    return RankEvidence(number, **{**usual, **more})


def waits(number: int, sequence: int = 1204, *, of: int = 4, **more: Any) -> RankEvidence:
    """A rank that waits in an all-reduce."""
    calls = (call(sequence - 1, done=True), call(sequence))
    return rank(number, of=of, **{"frames": WAITING, "collectives": calls, **more})


def elsewhere(number: int, sequence: int = 1204, *, of: int = 4, **more: Any) -> RankEvidence:
    """A rank that has not enqueued it."""
    return rank(number, of=of, **{"frames": SAVING, "collectives": (call(sequence - 1, done=True),), **more})
