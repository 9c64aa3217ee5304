"""What releases are made with: hashes of all packages, and their licences."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the scripts read."""
    for name in ("pyproject.toml", "NOTICE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "packaging", tmp_path / "packaging", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def checked(tree: Path, script: str) -> tuple[int, str]:
    """The script's exit code and errors."""
    argv = [sys.executable, "-B", str(tree / "packaging" / script), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize("script", ["hashes.py", "notice.py"])
def test_the_files_fit_the_packages(script: str) -> None:
    """Every package that the extras of a release install, at the version that is tested."""
    assert checked(ROOT, script) == (0, "")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("packaging/hashes/core.txt", r"(?m)^paramiko==.*\n(    .*\n)+", "", "core.txt lacks paramiko"),
        ("packaging/hashes/core.txt", r"(?m)^(rich)==\S+", r"\1==1.0", "another version of rich"),
        (
            "packaging/hashes/core.txt",
            r"(?m)^(rich==\S+ \\\n)(    .*\n)+",
            r"\1",
            "core.txt has no hash of rich",
        ),
        ("packaging/hashes/gui.txt", r"(?m)\Z", "rich==15.0.0 \\\\\n", "gui.txt needs no rich"),
        (
            "packaging/constraints.txt",
            r"(?m)^(torch)==.*",
            r"\1==9.9",
            "train.txt has another version of torch",
        ),
    ],
)
def test_what_does_not_fit_is_named(tree: Path, file: str, old: str, new: str, said: str) -> None:
    path = tree / file
    changed = re.sub(old, new, path.read_text(), count=1)
    assert changed != path.read_text()
    path.write_text(changed)
    code, errors = checked(tree, "hashes.py")
    assert code == 1
    assert said in errors


def test_a_licence_that_is_missing_shows(tree: Path) -> None:
    """So does a package that is not carried any more, and a new version."""
    notice = tree / "NOTICE"
    right = notice.read_text()
    assert re.search(r"(?m)^- numpy \S+: BSD", right)
    for changed in (
        re.sub(r"(?m)^- numpy .*\n", "", right),
        right + "- pytest 9.2.0: MIT\n",
        re.sub(r"(?m)^- numpy \S+:", "- numpy 1.0:", right),
    ):
        notice.write_text(changed)
        assert checked(tree, "notice.py")[0] == 1


def test_every_hash_file_names_its_platforms() -> None:
    files = sorted((ROOT / "packaging/hashes").glob("*.txt"))
    assert [path.stem for path in files] == ["core", "gui", "more", "train"]
    for path in files:
        assert "Linux on x86_64 and aarch64, Python 3.11, 3.12, 3.13" in path.read_text()
