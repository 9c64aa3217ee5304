"""Hostile evidence: answers of ranks, their stacks, py-spy's output, and NCCL's state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from support.doctor.evidence import rank, waits
from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.agent.doctor.evidence import from_answer, from_faulthandler, from_py_spy
from torchdeck.agent.doctor.evidence_limit import fitting, plain
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.node.nccl_ras import read_state
from torchdeck.agent.gang import events
from torchdeck.agent.leader.channel import LINE_LIMIT
from torchdeck.agent.leader.gang_messages import to_json
from torchdeck.contract.atomic import read_json, write_json

ANSWER = {
    "v": 1,
    "threads": [
        {"main": True, "frames": [{"file": "/code/train.py", "line": 84, "function": "save", "calls": True}]},
        {"main": False, "frames": []},
    ],
    "groups": [{"group": "0", "ranks": [0, 1], "description": "default_pg"}],
    "collectives": [
        {
            "group": "0",
            "sequence": sequence,
            "operation": "gloo:all_reduce",
            "shapes": "[[1024]]",
            "types": "Float",
            "done": sequence < 1204,
            "p2p": False,
        }
        for sequence in (1203, 1204)
    ],
}
SPIED = [{"os_thread_id": 7, "frames": [{"filename": "/code/train.py", "line": 84, "name": "save"}]}]
NCCL = {
    "communicators": [
        {
            "ranks": [{"rank": 0, "pid": 7, "collective_counts": {"AllReduce": 3}}, {"rank": 1, "pid": 8}],
            "missing_ranks": [{"rank": 2, "pid": 9}],
        }
    ]
}
DUMP = (
    b'Thread 0x00007f01 (most recent call first):\n  File "/code/w.py", line 3 in wait\n\n'
    b'Current thread 0x00007f00 (most recent call first):\n  File "/code/a.py", line 4 in run\n'
)


def judged(fields: dict[str, Any], place: Path) -> None:
    """The way of a rank's evidence: written, sent to the leader, judged with the others'."""
    found = rank(0, of=2)._replace(**fields)
    write_json(place / "0.json", plain(found), durable=False)
    (cut,) = fitting((found,))
    line = json.dumps(to_json(events.Examined("node", 1, "1", (cut,))), allow_nan=False).encode()
    assert len(line) < LINE_LIMIT
    verdict = judge({0: cut, 1: waits(1, of=2)}, {0: "a", 1: "b"})
    assert verdict.sentence.encode()


def read_answer(case: bytes, place: Path) -> None:
    path = place / "0.answer.json"
    path.write_bytes(case)
    judged(from_answer(read_json(path, limit=4 << 20)), place)


def read_stacks(case: bytes, place: Path) -> None:
    judged({"source": "faulthandler", "frames": from_faulthandler(case.decode("utf-8", "replace"))}, place)


def read_nodes(case: bytes, place: Path) -> None:
    """py-spy's output and NCCL's."""
    text = case.decode("utf-8", "replace")
    assert read_state(text, {7}).text == text
    path = place / "spied.json"
    path.write_bytes(case)
    judged({"source": "py-spy", "frames": from_py_spy(read_json(path), 7)}, place)


def test_answers_of_ranks() -> None:
    read_all(read_answer, hostile.documents(ANSWER))


def test_stacks_of_faulthandler() -> None:
    long = st.integers(1, 5000).map(lambda count: DUMP * count) | st.just(DUMP.replace(b"4", b"9" * 5000))
    read_all(read_stacks, hostile.damaged(DUMP) | long)


def test_what_other_programs_say_of_ranks() -> None:
    read_all(read_nodes, hostile.documents(SPIED, NCCL))
