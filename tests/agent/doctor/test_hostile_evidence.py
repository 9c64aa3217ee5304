"""Evidence that another node or another program spoils, or that is too long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.doctor.evidence import WAITING, call, elsewhere, rank, waits
from support.waiting import wait_until
from torchdeck.agent.doctor.evidence import (
    MOST_FRAMES,
    Frame,
    from_answer,
    from_faulthandler,
    from_py_spy,
    outlined,
)
from torchdeck.agent.doctor.evidence_limit import fitting
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.py_spy import PySpy
from torchdeck.agent.doctor.sentences import place_of
from torchdeck.agent.gang import events
from torchdeck.agent.leader.channel import LINE_LIMIT
from torchdeck.agent.leader.gang_messages import to_json


@pytest.mark.parametrize(
    "shapes", ["[[1e999]]", f"[[{'9' * 5000}]]", f"[[{','.join(['1e300'] * 40)}]]", f"[[-{'9' * 30}]]"]
)
def test_a_size_of_another_node_is_not_known_rather_than_an_error(shapes: str) -> None:
    waiting, late = (found(number, of=2) for number, found in enumerate((waits, elsewhere)))
    calls = tuple(item._replace(shapes=shapes) for item in waiting.collectives)
    found = judge({0: waiting._replace(collectives=calls), 1: late}, {0: "a", 1: "b"})
    assert "waits for it in all_reduce #1204, train.py:61 step" in found.sentence


def test_a_peer_of_another_node_is_not_known_rather_than_an_error() -> None:
    send = call(1, operation=f"send {'9' * 5000}->1", p2p=True)
    found = judge({0: rank(0, of=2, frames=WAITING, collectives=(send,)), 1: elsewhere(1, of=2)}, {})
    assert found.is_hang


@pytest.mark.parametrize("count", [8, 64])
def test_evidence_of_a_node_fits_into_one_message(count: int) -> None:
    """With 64 ranks, deep stacks and many groups, too, and the verdict is the same."""
    name = "gpt-" * 20
    deep = tuple(Frame(f"/code/{name}.py", line, name, calls=True) for line in range(MOST_FRAMES))
    more = tuple(call(at, group=str(group), done=True) for group in range(1, 9) for at in range(12))
    ranks = tuple(
        found._replace(frames=(*found.frames, *deep)[:MOST_FRAMES], collectives=(*more, *found.collectives))
        for found in (elsewhere(at, of=count) if at == 3 else waits(at, of=count) for at in range(count))
    )
    cut = fitting(ranks)
    line = json.dumps(to_json(events.Examined("node", 1, "1", cut)), separators=(",", ":"))
    assert len(line) < LINE_LIMIT - 1024
    places = dict.fromkeys(range(count), "node")
    assert judge(dict(enumerate(cut)), places) == judge(dict(enumerate(ranks)), places)
    assert (cut == ranks) is (count == 8), "what fits is not cut"


def hidden(above: int, below: int) -> list[Frame]:
    """A stack with the user's line among frames of Lightning."""
    library = "/venv/lib/python3.11/site-packages/lightning/pytorch/core/module.py"
    inner = [Frame(library, 1137 + number, "backward") for number in range(above)]
    return [*inner, Frame("/code/train.py", 84, "main"), *(Frame(library, 1, "run") for _ in range(below))]


@pytest.mark.parametrize(("above", "below"), [(0, 60), (20, 40), (31, 0), (32, 0), (40, 20), (60, 3)])
def test_the_users_line_is_kept_of_a_deep_stack(above: int, below: int) -> None:
    """By whatever reads the stack, and if evidence is cut for a message."""
    frames = hidden(above, below)
    items = [frame._asdict() for frame in frames]
    lines = "".join(f'  File "{frame.file}", line {frame.line} in {frame.function}\n' for frame in frames)
    spied = [{"filename": frame.file, "line": frame.line, "name": frame.function} for frame in frames]
    read = (
        from_answer({"threads": [{"main": True, "frames": items}]})["frames"],
        from_faulthandler(f"Current thread 0x00007f0000000000 (most recent call first):\n{lines}"),
        from_py_spy([{"os_thread_id": 7, "frames": spied}], 7),
    )
    for found in read:
        assert len(found) <= MOST_FRAMES
        assert found[:24] == tuple(frames[:24])
        for most in (MOST_FRAMES, 16, 8, 4):
            assert place_of(waits(0, frames=outlined(found, most))) == "train.py:84 main"
    deep = tuple(waits(number, of=64, frames=read[0]) for number in range(64))
    for limit in (960 << 10, 200 << 10, 80 << 10):
        assert {place_of(cut) for cut in fitting(deep, limit)} == {"train.py:84 main"}


def test_groups_of_many_ranks_fit_into_one_message() -> None:
    ranks = tuple(waits(number, of=60000) for number in range(8))
    cut = fitting(ranks)
    assert [len(found.groups) for found in cut] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert len(json.dumps(to_json(events.Examined("node", 1, "1", cut)))) < LINE_LIMIT


@pytest.mark.parametrize(
    "thread", [{}, {"frames": None}, {"frames": [1, None, {"filename": 3}]}, {"frames": {"name": "x"}}]
)
def test_other_output_of_py_spy_has_no_frames(thread: dict[str, object]) -> None:
    assert from_py_spy([{"os_thread_id": 7, **thread}], 7) == ()


def test_a_dump_that_ends_before_the_main_thread_has_no_frames_of_it() -> None:
    """faulthandler writes 100 threads, and a line of dots if there are more."""
    other = 'Thread 0x00007f0000000001 (most recent call first):\n  File "/code/w.py", line 3 in wait\n'
    main = 'Current thread 0x00007f0000000000 (most recent call first):\n  File "/code/a.py", line 4 in run\n'
    assert from_faulthandler(f"{other}...\n") == ()
    assert from_faulthandler(f"{other}\n{main}  ...\n") == (Frame("/code/a.py", 4, "run"),)


def test_a_line_of_5000_digits_is_no_frame() -> None:
    main = 'Current thread 0x00007f0000000000 (most recent call first):\n  File "/code/a.py", line 4 in run\n'
    assert from_faulthandler(main.replace("4", "4" * 5000)) == ()


@pytest.mark.processes
def test_long_output_of_py_spy_is_read_whole(tmp_path: Path) -> None:
    """More than a pipe holds; nothing reads it until py-spy has ended."""
    frames = [{"filename": "/code/train.py", "line": 84, "name": "save_model"}] * 5000
    (tmp_path / "output").write_text(json.dumps([{"os_thread_id": 7, "frames": frames}]))
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\nexec cat {tmp_path}/output\n")
    program.chmod(0o700)
    spy = PySpy(str(program), 7)
    try:
        wait_until(lambda: not spy.running, 20, "the end of py-spy")
        assert spy.frames() == (Frame("/code/train.py", 84, "save_model"),) * MOST_FRAMES
    finally:
        spy.close()
