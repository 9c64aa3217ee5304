"""Files that a program writes beside its code, in the run's copy."""

from pathlib import Path

from support.links.code_transfer import code_of, written
from support.values.machines import plan
from torchdeck.agent.snapshots.results import bring, written_beside
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.code.capture import capture


def copied(tmp_path: Path) -> tuple[RunLayout, Path]:
    work = written(tmp_path / "work", {"train.py": b"", "lib/a.py": b"", "data.csv": b"1", "link": b""})
    (work / ".torchdeckignore").write_text("data.csv\n")
    layout = RunLayout(tmp_path / "home/runs/r")
    layout.root.mkdir(parents=True)
    capture(layout, plan(code=code_of(work, tmp_path / "home")), tmp_path / "home")
    return layout, work


def test_nothing_is_found_in_a_copy_that_no_program_wrote_to(tmp_path: Path) -> None:
    """Links to what was not copied, and byte code, are no results."""
    layout, _ = copied(tmp_path)
    written(layout.code, {"lib/__pycache__/a.pyc": b""})
    assert written_beside(layout) == []


def test_results_move_to_the_project_and_a_link_stays(tmp_path: Path) -> None:
    layout, work = copied(tmp_path)
    written(layout.code, {"out/step 1/model.pt": b"weights", "lib/cache.json": b"{}"})
    assert written_beside(layout) == ["lib/cache.json", "out/step 1/model.pt"]
    moved = bring(layout, work)
    assert (moved.brought, moved.left) == (("lib/cache.json", "out/step 1/model.pt"), ())
    assert (work / "out/step 1/model.pt").read_bytes() == b"weights"
    assert (layout.code / "out/step 1/model.pt").readlink() == work / "out/step 1/model.pt"
    assert written_beside(layout) == []
    assert [path.name for path in (work / "out/step 1").iterdir()] == ["model.pt"]


def test_files_of_the_project_are_never_replaced(tmp_path: Path) -> None:
    """A file of that name that came meanwhile stays, a broken link too; the result stays in the copy."""
    layout, work = copied(tmp_path)
    written(layout.code, {"out.pt": b"new", "log": b"new"})
    (work / "out.pt").write_text("mine")
    (work / "log").symlink_to("nowhere")
    assert bring(layout, work).left == ("log", "out.pt")
    assert (work / "out.pt").read_text() == "mine"
    assert written_beside(layout) == ["log", "out.pt"]


def test_run_without_a_copy_has_no_results(tmp_path: Path) -> None:
    assert written_beside(RunLayout(tmp_path / "r")) == []
