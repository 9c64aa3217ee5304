"""Everything that commands print passes through one sanitiser."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import torchdeck.cli
from torchdeck.cli.console import make_console
from torchdeck.cli.main import main
from torchdeck.cli.output import guard, json_text, unguarded, write_document, write_log_line

EVIL = "\x1b]52;c;aGk=\x07[link=http://evil/]a\u202eb[/link]\x9d\x7f"
SAFE = "�]52;c;aGk=�[link=http://evil/]a�b[/link]��"
BYPASSES = re.compile(r"\bConsole\(|json\.dumps\(|from_markup|stdout\.buffer|stderr\.buffer|os\.write\(")


def test_what_is_printed_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    with guard():
        print(EVIL)
        print(EVIL, file=sys.stderr)
        sys.stdout.write(EVIL)
        write_log_line(EVIL, f"\x1b[31m{EVIL}", sys.stdout)
        print(json_text({"a": EVIL}))
        unguarded(sys.stdout).write("\r")
    out, err = capsys.readouterr()
    assert err == f"{SAFE}\n"
    printed, log, document, own = out.split("\n")
    assert printed == SAFE
    assert log == f"{SAFE}{SAFE}\x1b[31m[link=http://evil/]a�b[/link]\x1b[0m"
    assert json.loads(document) == {"a": EVIL}
    assert own == "\r"


def test_a_script_for_a_file_is_exact_and_for_a_terminal_safe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with guard():
        write_document(EVIL)
        assert capsys.readouterr().out == EVIL
        monkeypatch.setattr(unguarded(sys.stdout), "isatty", lambda: True)
        write_document(EVIL)
        assert capsys.readouterr().out == SAFE


def test_an_error_that_nothing_catches_is_printed_safely() -> None:
    """Python prints it after the block; of an exit that was meant nothing is left behind."""
    before = sys.stdout, sys.stderr
    try:
        with pytest.raises(ValueError, match="evil"), guard():
            raise ValueError(EVIL)
        assert unguarded(sys.stderr) is before[1]
        assert sys.stderr is not before[1]
    finally:
        sys.stdout, sys.stderr = before
    with pytest.raises(SystemExit):
        main(["--no-such-option"])
    assert (sys.stdout, sys.stderr) == before


def test_arguments_that_are_wrong_are_quoted_safely(capsys: pytest.CaptureFixture[str]) -> None:
    """They may come from a link that was clicked or a line that was pasted."""
    assert main(["runs", "show", EVIL]) != 0
    assert main(["plan", f"{EVIL}.toml"]) != 0
    out, err = capsys.readouterr()
    assert not set("\x1b\x07\u202e\x9d\x7f") & set(out + err)


def test_consoles_show_texts_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """In tables, titles and styled texts: no markup, links or escapes; styles of ours are kept."""
    table = Table(EVIL, "b")
    table.add_row(EVIL, Text(EVIL))
    with guard():
        console = make_console(width=200, force_terminal=True, color_system="truecolor")
        console.print(EVIL)
        console.print(table)
        console.print(Text.assemble((EVIL, "red")))
        console.print(Text("x", style="link http://evil/"))
        console.print(Text.from_ansi("\x1b]8;;http://evil/\x1b\\text\x1b]8;;\x1b\\"))
    out = capsys.readouterr().out
    assert out.count("�]52;c;aGk=[link=http://evil/]a") == 5  # rich itself leaves out the bell
    assert "\x1b[31m" in out
    assert "\x1b]" not in out
    assert not set("\x07\u202e\x9d\x7f") & set(out)


def test_no_command_goes_past_it() -> None:
    """Consoles and JSON are made in the two files that make them safe."""
    folder = Path(torchdeck.cli.__file__).parent
    own = {"console.py", "output.py"}
    found = {
        f"{file.name}: {match.group()}"
        for file in folder.rglob("*.py")
        if file.name not in own
        for match in BYPASSES.finditer(file.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_stream_that_a_shell_has_closed_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with guard():
        assert sys.stderr is None
        assert isinstance(sys.stdout, io.TextIOBase)
