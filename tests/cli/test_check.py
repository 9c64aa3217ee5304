"""`torchdeck check`."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from torchdeck.cli import check
from torchdeck.cli.check import print_matrix
from torchdeck.plan.check import failed, ok, warning
from torchdeck.use_cases.check import Checked


def command(*words: str) -> int:
    """The command, as the command line would call it."""
    parser = argparse.ArgumentParser()
    check.add_parser(parser.add_subparsers())
    args = parser.parse_args(["check", *words])
    return int(args.handler(args))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    return tmp_path


@pytest.mark.processes
def test_all_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every check is shown, and the exit status is 0."""
    assert command("--script", "train.py", "--set", "distributed.devices=cpu") == 0
    shown = capsys.readouterr().out
    assert "ok       script " in shown
    assert "All checks passed. Ready to launch." in shown


@pytest.mark.parametrize(("count", "told"), [(1, "1 warning"), (6, "6 warnings")])
def test_warnings_are_counted_at_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, told: str
) -> None:
    """It would start, but not every check passed."""
    doubts = (warning("memory", "localhost", "nothing that was tried makes it fit", "use less"),) * count
    monkeypatch.setattr(check, "check", lambda *_: Checked((ok("script", "localhost", "is there"), *doubts)))
    assert command("--script", "train.py") == 0
    shown = capsys.readouterr().out
    assert shown.endswith(f"Ready to launch, with {told}.\n")
    assert "All checks passed" not in shown


def test_a_failure_is_exit_3(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong and what to do stand in one line."""
    assert command("--script", "absent.py") == 3
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed")]
    assert "absent.py does not exist: correct run.script" in line


def test_json_says_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks with name, status, node, what and fix; whether a run would start."""
    assert command("--json", "--script", "absent.py") == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    (failed,) = [entry for entry in answer["checks"] if entry["status"] == "failed"]
    assert set(failed) == {"name", "status", "node", "what", "fix"}
    assert failed["name"] == "script"


def test_a_misfit_does_not_hide_other_failures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Devices that are not there and a script that is not there are both said."""
    assert command("--json", "--script", "absent.py", "--set", "distributed.devices=[99]") == 3
    answer = json.loads(capsys.readouterr().out)
    assert [problem["path"] for problem in answer["problems"]] == ["distributed.devices[0]"]
    assert any(entry["status"] == "failed" for entry in answer["checks"])


def test_a_bad_config_is_exit_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is checked then."""
    assert command("--script", "train.py", "--set", "launch.stopgrace=1") == 2
    assert "expected: launch.stop_grace" in capsys.readouterr().err


def test_a_home_that_cannot_be_is_a_failure(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 3 with what to do, not a traceback."""
    monkeypatch.setenv("TORCHDECK_HOME", str(folder / "train.py"))
    assert command("--script", "train.py") == 3
    assert "set TORCHDECK_HOME" in capsys.readouterr().out


@pytest.mark.processes
def test_the_modules_are_cheap_to_import() -> None:
    """`torchdeck --help` imports every command; none of them may bring pydantic, rich or numpy along."""
    code = (
        "import sys, torchdeck.cli.plan.plan_command, torchdeck.cli.check, torchdeck.cli.refusals\n"
        "print([name for name in ('pydantic', 'rich', 'numpy', 'torch', 'tomlkit') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "[]\n"


def test_what_was_measured_between_nodes_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the matrix, though nothing is wrong; other things that are well are a cell of it alone."""
    said = "all-reduce of 2 ranks over gloo: 0.42 ms, 1.1 GiB/s"
    checks = [
        ok(name, node, said if name == "all-reduce" else "fine")
        for name in ("disk", "all-reduce")
        for node in ("a", "b")
    ]
    print_matrix(Console(width=200, soft_wrap=True), checks)
    out = capsys.readouterr().out
    assert out.count(said) == 1
    assert "fine" not in out
    print_matrix(Console(width=200), [failed("all-reduce", "a", "no way to b", "look")])
    assert capsys.readouterr().out.count("no way to b") == 1
