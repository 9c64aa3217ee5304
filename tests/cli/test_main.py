"""Which command was meant; help, version, and `torchdeck` alone."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import torchdeck
from torchdeck.cli import main as cli


def test_help_names_every_command_and_is_quick() -> None:
    """Within a quarter of a second, by processor time, which a busy machine does not lengthen."""
    code = (
        "import time\n"
        "from torchdeck.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "import sys; print(time.process_time(), file=sys.stderr)\n"
        "assert not {'torch', 'pydantic', 'rich', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert float(done.stderr) < 0.25
    for name in (*cli.COMMANDS, "--no-gui", "--script", "--detach", "130"):
        assert name in done.stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command is there, with the line that the main help gives it."""
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    assert f"torchdeck {name}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "show", "logs", "metrics", "attach", "stop", "resume", "delete"])
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "torchdeck --no-gui RUN.toml"), (["my.toml"], "torchdeck --no-gui my.toml")],
)
def test_without_a_window_it_says_what_to_type(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no window yet: exit code 2, and the command that works."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [])
    assert cli.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_window_is_opened_where_one_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point gets the run file, and its exit code is the command's."""
    opened: list[list[str]] = []

    def window(files: list[str]) -> int:
        opened.append(files)
        return 5

    class Entry:
        def load(self) -> object:
            return window

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [Entry()])
    assert cli.main(["my.toml"]) == 5
    assert cli.main([]) == 5
    assert opened == [["my.toml"], []]


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
            "torchdeck runs list: it has no use for --all; `torchdeck runs list --help`",
        ),
        (["plan", "a.toml", "b.toml"], "torchdeck plan: it has no use for b.toml; `torchdeck plan --help`"),
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
