"""Commit of the code and its changes since, recorded at the start, and the difference between two runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.links.code_transfer import code_of, written
from support.values.histories import controller_journal
from support.values.machines import plan
from support.values.made_runs import IDS, make_run
from support.values.run_entries import DONE
from torchdeck.cli.main import main
from torchdeck.contract.layout import Home
from torchdeck.launching.code import git_state as module
from torchdeck.launching.code.capture import capture
from torchdeck.launching.code.git_state import git_state, record_git
from torchdeck.runs.folders.git_state import GitState, read_git_state
from torchdeck.use_cases.code import changes


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder in a repository: one file as committed, one changed, one new, one that holds a secret."""
    folder = tmp_path / "repository" / "src"
    folder.mkdir(parents=True)
    for name in ("same.py", "changed.py", "secret.py"):
        (folder / name).write_text("old\n")
    git(folder.parent, "init", "-b", "main")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "-m", "first")
    for name in ("changed.py", "secret.py", "new.py"):
        (folder / name).write_text("new\n")
    return folder


FILES = ("same.py", "changed.py", "new.py")


@pytest.mark.processes
def test_commit_and_changes_of_the_copied_files_are_recorded(code: Path, tmp_path: Path) -> None:
    layout = make_run(tmp_path / "home", controller_journal(), DONE)
    record_git(layout, code, FILES)
    found = read_git_state(layout)
    assert found is not None
    assert (found.branch, len(found.commit), found.untracked) == ("main", 40, ("new.py",))
    assert "+new" in found.diff
    assert "secret.py" not in found.diff
    assert found.sentence == f"git commit {found.commit[:8]} (main), 1 file changed, 1 file untracked"


@pytest.mark.processes
def test_a_configuration_of_git_hides_no_change(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither renames, nor other prefixes, nor another repository in the environment."""
    (code / "changed.py").write_text("a line\n" * 20)
    git(code, "add", ".")
    git(code, "commit", "-m", "second")
    (code / "changed.py").rename(code / "renamed.py")
    git(code, "add", "-A")
    (code / "same.py").write_text("new\n")
    for key in ("mnemonicPrefix", "noprefix"):
        git(code, "config", f"diff.{key}", "true")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    found = git_state(code, ("same.py", "renamed.py"))
    assert found is not None
    assert "a/same.py b/same.py" in found.diff
    assert "a/renamed.py b/renamed.py" in found.diff


@pytest.mark.processes
@pytest.mark.parametrize("key", ["clean", "process"])
def test_filters_of_the_repository_are_not_run(code: Path, tmp_path: Path, key: str) -> None:
    """A folder from elsewhere brings its own configuration, in which they are any command."""
    (code / ".gitattributes").write_text("*.py filter=strange.one\n")
    git(code, "config", f"filter.strange.one.{key}", f"touch {tmp_path}/ran; cat")
    git(code, "config", "filter.strange.one.required", "true")
    (code / "changed.py").write_text("newer\n")
    found = git_state(code, FILES)
    assert not (tmp_path / "ran").exists()
    assert found is not None
    assert "+newer" in found.diff


@pytest.mark.processes
def test_a_commit_alone_and_a_long_diff(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(code, "checkout", "--detach")
    same = git_state(code, ("same.py",))
    assert same is not None
    assert same.sentence.endswith(f"{same.commit[:8]}, nothing changed since")
    monkeypatch.setattr(module, "LARGEST", 10)
    cut = git_state(code, FILES)
    assert cut is not None
    assert (cut.diff, cut.is_cut) == ("", True)
    assert "too much to keep" in cut.sentence


@pytest.mark.processes
def test_nothing_is_recorded_without_a_repository_or_git(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run(tmp_path / "home", controller_journal(), DONE)
    record_git(layout, tmp_path, FILES)
    monkeypatch.setenv("PATH", "/nowhere")
    record_git(layout, code, FILES)
    assert not layout.git.exists()
    for content in ("[", '{"v": 99}', '{"v": 1, "commit": 3}'):
        layout.git.write_text(content)
        assert read_git_state(layout) is None


def test_the_code_of_two_runs_is_compared(
    torchdeck_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for number, text in enumerate((b"a\nb\n", b"a\nc\n")):
        layout = make_run(torchdeck_home, controller_journal(), DONE, run_id=IDS[number])
        files = {"train.py": text, "same.py": b"x\n", **({"new.py": b"1\n"} if number else {})}
        capture(layout, plan(code=code_of(written(folder, files), torchdeck_home)), torchdeck_home)
    assert main(["runs", "diff", IDS[1], IDS[0]]) == 0
    out = capsys.readouterr().out
    assert "-b\n+c" in out
    assert "--- /dev/null\n+++ b/new.py" in out
    assert "same.py" not in out
    assert main(["runs", "diff", IDS[1], IDS[1]]) == 0
    assert "the code is the same" in capsys.readouterr().out
    assert main(["runs", "diff", IDS[2], IDS[0]]) == 2
    assert main(["runs", "diff", IDS[0]]) == 2
    assert "no git commit on record" in capsys.readouterr().err
    state = GitState("c" * 40, "main", "diff --git a/x b/x\n+1\n")
    Home(torchdeck_home).run(IDS[1]).git.write_text(json.dumps(state.to_json()))
    assert main(["runs", "diff", IDS[1]]) == 0
    assert "git commit cccccccc (main), 1 file changed" in capsys.readouterr().out
    assert main(["runs", "show", IDS[1]]) == 0
    assert f"(torchdeck runs diff {IDS[1]})" in capsys.readouterr().out


def test_a_long_difference_is_cut_and_can_be_cancelled(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    runs = []
    for number, text in enumerate((b"a\n" * 50, b"b\n" * 50)):
        layout = make_run(tmp_path / "home", controller_journal(), DONE, run_id=IDS[number])
        capture(layout, plan(code=code_of(written(folder, {"train.py": text}), tmp_path)), tmp_path / "home")
        runs.append(layout)
    found = changes(runs[0], runs[1], most=10)
    assert (len(found.lines), found.is_cut) == (10, True)
    assert not changes(runs[0], runs[1], most=103).is_cut

    def cancel() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        changes(runs[0], runs[1], check=cancel)
