"""Which command was meant; help, version, and `torchdeck` alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchdeck
from torchdeck.cli import main as cli


@pytest.mark.processes
def test_help_names_every_command_and_imports_little() -> None:
    """The benchmark `small_costs` says how fast it is."""
    code = (
        "import sys\n"
        "from torchdeck.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'pydantic', 'rich', 'numpy'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in (*cli.COMMANDS, "--no-gui", "--script", "--detach", "130"):
        assert name in shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command is there, with the line that the main help gives it."""
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    assert f"torchdeck {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", ["list", "show", "stacks", "logs", "metrics", "attach", "stop", "resume", "delete"]
)
def test_every_command_on_runs_takes_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each names --json."""
    with pytest.raises(SystemExit):
        cli.main(["runs", command, "--help"])
    assert "--json" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The package's version, by its name."""
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"torchdeck {torchdeck.__version__}\n"


@pytest.mark.parametrize("named", [False, True])
def test_without_a_window_it_says_what_to_type(
    named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app is not installed: exit code 2, and the command that works."""
    run_file = tmp_path / "my.toml"
    run_file.touch()
    monkeypatch.setattr(cli, "windows", lambda: ())
    assert cli.main([str(run_file)] if named else []) == 2
    assert f"torchdeck --no-gui {run_file if named else 'RUN.toml'}" in capsys.readouterr().err


def test_window_is_opened_where_one_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point gets the run file or the script, and its exit code is the command's."""
    opened: list[list[str]] = []
    run_file, script = tmp_path / "my.toml", tmp_path / "train.py"
    run_file.touch()
    script.touch()

    def window(files: list[str]) -> int:
        opened.append(files)
        return 5

    class Entry:
        def load(self) -> object:
            return window

    monkeypatch.setattr(cli, "windows", lambda: [Entry()])
    for arguments in ([str(run_file)], [], [str(script)], ["--script", str(script)]):
        assert cli.main(arguments) == 5
    assert opened == [[str(run_file)], [], [str(script)], [str(script)]]


def test_the_window_is_that_of_this_package() -> None:
    assert [entry.value for entry in cli.windows()] == ["torchdeck_app.start:main"]


def test_a_file_that_is_not_there_opens_no_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "windows", lambda: pytest.fail("opened a window"))
    assert cli.main([str(tmp_path / "my.toml")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_options_that_the_window_would_drop_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank count or an override belongs to --no-gui; the window never drops it."""
    monkeypatch.setattr(cli, "windows", lambda: pytest.fail("opened a window"))
    with pytest.raises(SystemExit) as caught:
        cli.main(["--script", "train.py", "--nproc", "2"])
    assert caught.value.code == 2
    assert "--nproc needs --no-gui" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--no-gui"], ["--no-gui", "--nproc", "x"], ["runs"], ["runs", "no-such"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """argparse's way, with a sentence."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnus", "list"], "there is torchdeck runs"),
        (["chekc", "run.toml"], "there is torchdeck check"),
        (
            ["runs", "list", "--all"],
            "torchdeck runs list: unknown arguments: --all; `torchdeck runs list --help`",
        ),
        (["plan", "a.toml", "b.toml"], "torchdeck plan: unknown arguments: b.toml; `torchdeck plan --help`"),
    ],
)
def test_slips_of_the_pen_get_the_right_word(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command misspelt, or an option it does not have: exit code 2 and one sentence that helps."""
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_interrupt_before_anything_runs_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a command works ends it with one line."""

    def interrupted(_arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupted)
    assert cli.main([]) == 130
    assert "interrupted" in capsys.readouterr().err
