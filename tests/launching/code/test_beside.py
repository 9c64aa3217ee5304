"""What is not copied is beside the copy as links."""

from pathlib import Path

from torchdeck.launching.code.capture import link_what_stays


def test_what_stays_is_found_where_it_was(tmp_path: Path) -> None:
    """Data anywhere, empty folders, hidden ones; what is copied is no link, and byte code is not shared."""
    folder, copy, home = tmp_path / "work", tmp_path / "copy", tmp_path / "work" / "runs-home"
    for name in (
        "train.py",
        "lib/a.py",
        "lib/data/x.bin",
        "data/y.bin",
        ".git/HEAD",
        "__pycache__/train.pyc",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "out").mkdir()
    home.mkdir()
    names = ["train.py", "lib/a.py"]
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("copied")
    assert link_what_stays(folder, copy, names, home) == 4
    links = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_symlink())
    assert links == [".git", "data", "lib/data", "out"]
    assert (copy / "lib/data/x.bin").read_text() == "lib/data/x.bin"
    assert (copy / "train.py").read_text() == "copied"
