"""Hostile command lines, and config files that they name."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck.trainers.arguments import MOST_FOLDERS, missing_configs, named_values, read_arguments

PART = b"\0\0config\0\0"
SUFFIXES = ("yaml", "json", "toml", "py")
WORDS = (
    "--output_dir",
    "--config=\0",
    "a.yaml",
    "/",
    "~nobody/x",
    "max_steps=1",
    "--deepspeed",
    "a.json",
    "-m",
)
CONFIG = {
    "output_dir": "out",
    "training": {"steps": 12},
    "deepspeed": "a.json",
    "list": [1, "x"],
    "fsdp": ["a"],
}
LINES = (
    b"output_dir: out\n",
    b"[job]\n",
    b"max_steps: 12 # few\n",
    b"fsdp:\n",
    b"  - full\n",
    b" " * 90,
    b"'" * 9,
)


def read(case: bytes, place: Path) -> None:
    """The case is the words of a command, and the content of each of its config files."""
    said, _, content = case.partition(PART)
    for suffix in SUFFIXES:
        (place / f"a.{suffix}").write_bytes(content)
    for command in (
        json.loads(said),
        *(["python", "x.py", "--config", f"a.{suffix}"] for suffix in SUFFIXES),
    ):
        found = read_arguments(command, place, {"WANDB_DIR": command[-1] if command else ""})
        assert all(folder.is_absolute() or "~" in str(folder) for folder in found.folders)
        assert len(found.folders) <= MOST_FOLDERS + 2
        assert found.total is None or 0 < found.total < 10**12
        given = named_values(command, place)
        assert all(isinstance(text, str) for text in missing_configs(command, given, place))


def test_arguments() -> None:
    words = st.lists(st.text(max_size=20) | st.sampled_from(WORDS), max_size=50).map(
        lambda each: json.dumps(each).encode()
    )
    texts = st.lists(st.sampled_from(LINES) | st.binary(max_size=20), max_size=60).map(b"".join)
    long = st.builds(lambda text, count: text * count, st.sampled_from(LINES), st.integers(1, 3000))
    read_all(read, st.tuples(words, hostile.documents(CONFIG) | texts | long).map(PART.join))
