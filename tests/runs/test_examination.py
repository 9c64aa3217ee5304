"""Stacks of all ranks, those with the same stack together."""

from pathlib import Path

from torchdeck.cli.runs.stacks import _lines
from torchdeck.contract.atomic import write_json
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.examination import Examination, shared_stacks

TORCH = {
    "file": "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py",
    "line": 9,
    "function": "wait",
}
OWN = {"file": "/code/train.py", "line": 84, "function": "step"}
MAIN = {"file": "/code/train.py", "line": 99, "function": "main"}


def test_the_users_own_line_comes_first(tmp_path: Path) -> None:
    """And the whole stack below it, innermost first; a stack without such a line begins with its own."""
    folder = RunLayout(tmp_path).attempt(1).examination("1")
    folder.root.mkdir(parents=True)
    for rank, frames in enumerate(([TORCH, OWN, MAIN], [TORCH, OWN, MAIN], [TORCH], [])):
        write_json(folder.rank(rank), {"frames": frames, "state": "S"})
    found = Examination(folder, "Rank 2 is late.", "late", (0, 1, 2, 3))
    stacks = {stack.ranks: stack for stack in shared_stacks(found)}
    assert stacks[0, 1].line == "ranks 0, 1: /code/train.py:84 step"
    assert stacks[2,].place.endswith("c10d.py:9 wait")
    assert stacks[3,].line == "rank 3: its stack is unknown"
    shown = _lines(found, shared_stacks(found))
    at = shown.index("ranks 0, 1: /code/train.py:84 step")
    assert [row.rpartition("/")[2] for row in shown[at + 1 : at + 4]] == [
        "c10d.py:9 wait",
        "train.py:84 step",
        "train.py:99 main",
    ]


def test_frames_of_the_copy_are_those_of_the_users_own_files(tmp_path: Path) -> None:
    """Whatever the node on which the copy lies."""
    layout = RunLayout(tmp_path / "runs/20261121T034455Z-gpt-0a1b2c")
    folder = layout.attempt(1).examination("1")
    folder.root.mkdir(parents=True)
    for rank, root in enumerate((layout.root, Path("/data/home/runs") / layout.root.name)):
        frame = {"file": f"{root}/code/src/train.py", "line": 84, "function": "step"}
        write_json(folder.rank(rank), {"frames": [frame], "state": "S"})
    found = Examination(folder, "Both are late.", "late", (0, 1), layout.root.name, "/home/me/project")
    (stack,) = shared_stacks(found)
    assert stack.line == "ranks 0, 1: /home/me/project/src/train.py:84 step"
