"""Making a run's directory."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.links.code_transfer import code_of, written
from support.values.machines import config, plan
from torchdeck.contract.layout import Home
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.launching.code.capture import CodeGoneError
from torchdeck.launching.launcher import LaunchRecord, create_run
from torchdeck.launching.runtime_bundle import ship
from torchdeck.runs.folders.run_directory import RunDirectoryError

LARGE = 2 << 20
"""Bytes of a file for which there is no room in `little_room`."""


@contextmanager
def little_room() -> Iterator[None]:
    """No file of more than half of LARGE can be written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def planned(folder: Path, home: Path, script: bytes) -> LaunchPlan:
    work = written(folder / "work", {"train.py": script})
    return plan(config({"script": str(work / "train.py")}), code=code_of(work, home))


def test_a_run_is_there_whole(tmp_path: Path, torchdeck_home: Path) -> None:
    """Run file, plan, code and journal, under its own name and with nothing beside it."""
    layout = create_run(
        planned(tmp_path, torchdeck_home, b"print()"), LaunchRecord("# mine\n"), torchdeck_home
    )
    assert layout.config.read_text() == "# mine\n"
    assert layout.plan.is_file()
    assert (layout.code / "train.py").read_bytes() == b"print()"
    assert '"created"' in layout.journal.read_text()
    assert [path.name for path in Home(torchdeck_home).runs.iterdir()] == [layout.root.name]


@pytest.mark.parametrize(("script", "text"), [(LARGE, 1), (1, LARGE)], ids=["code", "run file"])
def test_without_room_nothing_is_left(tmp_path: Path, torchdeck_home: Path, script: int, text: int) -> None:
    """It says what could not be written, and to make room."""
    ship(torchdeck_home)
    made = planned(tmp_path, torchdeck_home, b"#" * script)
    with little_room(), pytest.raises(RunDirectoryError, match=r"File too large\): make room first"):
        create_run(made, LaunchRecord("#" * text), torchdeck_home)
    assert list(Home(torchdeck_home).runs.iterdir()) == []


def test_without_its_script_nothing_is_left(tmp_path: Path, torchdeck_home: Path) -> None:
    """What a run would execute is gone since its plan was made."""
    made = planned(tmp_path, torchdeck_home, b"print()")
    (tmp_path / "work" / "train.py").unlink()
    with pytest.raises(CodeGoneError, match=r"train\.py no longer exists"):
        create_run(made, LaunchRecord(""), torchdeck_home)
    assert list(Home(torchdeck_home).runs.iterdir()) == []
