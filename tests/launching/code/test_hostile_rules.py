"""Files of rules that a stranger wrote: they decide soon, or are refused with the reason."""

import os
import time
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from support.links.code_transfer import written
from torchdeck.config.loader import config_from_dict
from torchdeck.launching.code import ignore
from torchdeck.launching.code.ignore import GIT, BoundedPattern, Ignored, Rules, RulesError
from torchdeck.launching.code.scan import scan
from torchdeck.launching.code.user_code import read_user_code
from torchdeck.plan.code_paths import IGNORE_FILE

BACKTRACKING = {
    "stars": ("*a" * 20 + "b", "a" * 60),
    "stars in a folder": ("x/" + "*a" * 20 + "b", "x/" + "a" * 60),
    "folders": ("**/" + "a*/**/" * 12 + "b", "a/" * 60 + "c"),
    "sets": ("*[ab]" * 20 + "c", "ab" * 40),
}
"""A line, and the name of a file for which Python's own engine would look for centuries."""
SLOW = "*a" * 2000 + "[bd]", ("a" * 200 + "/") * 17 + "c"


@pytest.mark.parametrize("name", [GIT, IGNORE_FILE])
@pytest.mark.parametrize(("line", "file"), BACKTRACKING.values(), ids=BACKTRACKING)
def test_a_pattern_that_would_backtrack_for_ever_decides_soon(
    tmp_path: Path, name: str, line: str, file: str
) -> None:
    work = written(tmp_path / "work", {name: f"*.log\n{line}\n".encode(), file: b""})
    begun = time.thread_time()
    assert file in {found.name for found in scan(work).files}
    assert time.thread_time() - begun < 10


def test_a_pattern_that_takes_too_long_is_refused_with_its_line() -> None:
    """Of a path as long as paths may be, and a line of 4,000 characters."""
    line, path = SLOW
    rules = GitIgnoreSpec.from_lines(BoundedPattern, ["*.log", line])
    begun = time.thread_time()
    with pytest.raises(RulesError, match=r"/w/.gitignore: the line '\*a\*a.*takes too long to match"):
        Ignored(git=(Rules("/w/", rules, "/w/.gitignore"),)).file(f"/w/{path}")
    assert time.thread_time() - begun < 10


def test_the_reason_stands_beside_the_plan(tmp_path: Path) -> None:
    """No copy is made by rules that cannot be followed, and that is reported."""
    work = written(tmp_path / "work", {IGNORE_FILE: b"?" * 5000, "train.py": b""})
    config = config_from_dict({"run": {"script": "train.py"}}, work)
    tree, (said,) = read_user_code(config, work, tmp_path / "home")
    assert tree is None
    assert "line 1 has 5,000 characters" in said
    assert "without a copy" in said


def test_many_wildcards_alone_are_no_fault(tmp_path: Path) -> None:
    """They mean what they mean in git."""
    names = {"a1b2c3.txt": b"", "a1b2c.txt": b"", "deep/er/x/y/z.bin": b"", "keep.txt": b""}
    work = written(tmp_path / "work", {GIT: b"*a*b*c*3*\n**/x/**/z*.*b*n\n", **names})
    assert {file.name for file in scan(work).files} == {GIT, "a1b2c.txt", "keep.txt"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\n" * 10_001, "has 10,001 lines"),
        (b"ok\n" + b"?" * 5000, "line 2 has 5,000 characters"),
        (b"#" * (1 << 21), "is too large: more than 1 MiB"),
    ],
)
def test_rules_without_measure_are_refused(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(RulesError, match=why):
        scan(written(tmp_path / "work", {IGNORE_FILE: content}))


def test_a_pipe_in_place_of_rules_is_refused(tmp_path: Path) -> None:
    """It is not waited for."""
    os.mkfifo(tmp_path / GIT)
    with pytest.raises(RulesError, match="named pipe"):
        scan(tmp_path)


def test_so_many_rules_that_all_together_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line is quick; the time of all of them has a limit."""
    monkeypatch.setattr(ignore, "SECONDS", 0.2)
    files = {f"folder{number}/file{number}": b"" for number in range(400)}
    rules = "\n".join(f"*x{number}*y" for number in range(5000))
    with pytest.raises(RulesError, match="take too long to evaluate"):
        scan(written(tmp_path / "work", {GIT: rules.encode(), **files}))


def test_a_line_that_pathspec_does_not_understand_is_passed_over(tmp_path: Path) -> None:
    """As git does; the others count."""
    work = written(tmp_path / "work", {GIT: b"[z-a]\n*.log\n", "a.log": b"", "z": b""})
    assert {file.name for file in scan(work).files} == {GIT, "z"}
