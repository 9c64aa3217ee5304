"""What rules leave behind, as git does it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchdeck.launching.code.ignore import Ignored, is_marked, rules_above
from torchdeck.launching.code.scan import scan

GIT = shutil.which("git")
PATTERNS = st.sampled_from(
    [
        *(
            "*.log",
            "/a",
            "a/",
            "b",
            "!b",
            "!*.log",
            "a/*",
            "a/**/c",
            "**/b",
            "/a/b/",
            "!a/b",
            "c.log",
            "\\!x",
            "#x",
        ),
        *("", "  ", "?.log", "[ab]", "a/b/c", "!/a/", "**"),
    ]
)
PARTS = st.sampled_from(["a", "b", "c", "c.log", "!x"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


def names_below(folder: Path) -> set[str]:
    return {file.name for file in scan(folder).files}


def git_names(folder: Path) -> set[str]:
    listed = subprocess.run(
        [GIT or "git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(folder)},
    )
    return {name.decode() for name in listed.stdout.split(b"\0") if name}


@pytest.mark.processes
@pytest.mark.skipif(GIT is None, reason="there is no git to compare with")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=3), st.sets(PATHS, max_size=8))
def test_the_same_files_stay_behind_as_in_git(
    tmp_path_factory: pytest.TempPathFactory, top: list[str], below: list[str], names: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run([GIT or "git", "init", "-q", folder], check=True, capture_output=True)
    (folder / "a").mkdir()
    (folder / ".gitignore").write_text("\n".join(top))
    (folder / "a/.gitignore").write_text("\n".join(below))
    for name in sorted(names):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    assert names_below(folder) == git_names(folder)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_our_own_rules_are_stronger(tmp_path: Path) -> None:
    """In both directions, and over what no one wants otherwise."""
    write(tmp_path, _gitignore="*.bin\n", _torchdeckignore="!small.bin\nnotes.txt\n!node_modules/\n")
    write(tmp_path, small_bin="", big_bin="", notes_txt="", train_py="")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/a.js").touch()
    assert names_below(tmp_path) == {
        ".gitignore",
        ".torchdeckignore",
        "small.bin",
        "train.py",
        "node_modules/a.js",
    }


def test_rules_of_the_repository_around_hold_too(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, _gitignore="*.log\n/work/deep/\n", work__a_log="", work__b_py="", work__deep__c_py="")
    assert names_below(tmp_path / "work") == {"b.py"}


def test_a_folder_that_was_chosen_goes_though_git_ignores_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, _gitignore="work/\n", work__b_py="")
    assert names_below(tmp_path / "work") == {"b.py"}


def test_without_a_repository_nothing_above_counts(tmp_path: Path) -> None:
    write(tmp_path, _gitignore="*\n", work__b_py="")
    assert rules_above(tmp_path / "work")._replace(until=0) == Ignored(until=0)


def test_a_line_that_is_no_pattern_spoils_no_other(tmp_path: Path) -> None:
    write(tmp_path, _gitignore="*.log\n!\n*.txt\n", a_log="", b_txt="", c_py="")
    assert names_below(tmp_path) == {".gitignore", "c.py"}


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"])
def test_installed_packages_and_caches_are_known_by_what_is_in_them(mark: str) -> None:
    assert is_marked(["bin", mark])
    assert not is_marked(["bin"])
