"""Commands, options and node inventories shown in README.md and docs/ exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchdeck.cli.main import COMMANDS, FAMILIES, main
from torchdeck.nodes.inventory.file import parse_inventory

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = "\n".join(page.read_text("utf-8") for page in PAGES)
SPANS = re.compile(r"`(torchdeck [^`\n]+)`")
CONSOLE = re.compile(r"^\$ (torchdeck .*)$", re.MULTILINE)
ROW = re.compile(r"^\| (`torchdeck [^|]+) \|(.+)\|$", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def words(line: str) -> tuple[str, ...]:
    """The command that a line begins with: `runs attach`, `plan`, or nothing for a launch."""
    _, *rest = line.split()
    if not rest or rest[0] not in COMMANDS:
        return ()
    return tuple(rest[:2] if rest[0] in FAMILIES else rest[:1])


def options(line: str) -> Iterator[str]:
    """Torchdeck's own; what follows a lone -- is the script's."""
    for word in shlex.split(line, comments=True):
        if word == "--":
            return
        if OPTION.fullmatch(word):
            yield word


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> set[str]:
    """The options that a command says it has."""
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    told = capsys.readouterr()
    assert left.value.code == 0, f"the documents show {' '.join(command)}: {told.err}"
    return set(OPTION.findall(told.out))


def test_every_command_line_has_the_options_it_is_shown_with(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*SPANS.findall(SHOWN), *CONSOLE.findall(SHOWN)]
    shown: dict[tuple[str, ...], set[str]] = {}
    for line in lines:
        shown.setdefault(words(line), set()).update(options(line))
    assert len(shown) > 20
    missing = {command: used - help_of(capsys, *command) for command, used in shown.items()}
    assert not {command: used for command, used in missing.items() if used}


def test_the_table_of_commands_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A row names one command, or several of a family: `torchdeck nodes list`, `add`, and so on."""
    rows = ROW.findall(SHOWN)
    assert len(rows) > 15
    for cell, told in rows:
        first, *others = re.findall(r"`([^`]+)`", cell)
        command = words(first)
        commands = [command, *((command[0], name) for name in others if " " not in name and command)]
        there = set().union(*(help_of(capsys, *each) for each in commands))
        assert set(OPTION.findall(told)) <= there, first


def test_node_inventories_shown_are_valid() -> None:
    books = [text for text in re.findall(r"```toml\n(.*?)```", SHOWN, re.DOTALL) if "[nodes." in text]
    assert books
    for node_inventory in books:
        assert parse_inventory(node_inventory, "nodes.toml").nodes["gpu4"].tags
