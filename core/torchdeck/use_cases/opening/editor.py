"""Use case: the user's editor, opened at a line of a file here or on a node.

Nothing from a log is run: a path is one argument of a command without a shell, or a quoted part of a URL.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.source import SourcePlace

PAGE = "window#your-editor-and-terminal"


@dataclass(frozen=True)
class EditorUrl:
    """A URL that the desktop opens."""

    url: str


@dataclass(frozen=True)
class EditorCommand:
    """A program that is started without a shell."""

    argv: tuple[str, ...]
    in_terminal: bool = False


class NoEditorError(Refusal):
    """No editor is known that opens this place."""

    page = PAGE


def open_at(
    place: SourcePlace, editor: Editor, programs: Programs, entry: NodeEntry | None = None
) -> EditorUrl | EditorCommand:
    """Return how an editor is opened at a place.

    Args:
        place: the file, and its node.
        editor: the user's choice.
        programs: of this machine.
        entry: the node's entry in the node inventory, for a place on another node.

    Raises:
        NoEditorError: none is installed, or it opens no files of other nodes.
    """
    is_auto = editor.kind is EditorKind.AUTO
    if place.node != LOCALHOST:
        return _on_node(place, EditorKind.VSCODE if is_auto else editor.kind, programs, entry)
    match _chosen(editor, programs) if is_auto else editor.kind:
        case EditorKind.VSCODE:
            return _vscode(place, programs)
        case EditorKind.JETBRAINS:
            return _jetbrains(place, programs)
        case EditorKind.CUSTOM:
            return custom(place, editor.command)
        case _:
            return _visual(place, programs)


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


# Editors by their programs

_SCHEMES = {"code": "vscode", "code-insiders": "vscode-insiders", "codium": "vscodium"}
"""VS Code and its variants → scheme of their URLs."""
_VSCODE = tuple(_SCHEMES)
_JETBRAINS = ("pycharm", "pycharm-professional", "pycharm-community", "charm", "idea", "dataspell")
_IN_TERMINAL = ("vi", "vim", "nvim", "nano", "micro", "hx", "helix", "kak", "joe", "ne", "mg", "jed")
_EMACS = ("emacs", "emacsclient")
_WITH_COLON = ("subl", "sublime_text", "zed", "micro", "hx", "helix", "lapce", "lite-xl")
"""Editors that take `file:line`."""
_WITH_GOTO = (*_VSCODE, "cursor", "windsurf")
"""Editors that take `--goto file:line:column`."""


def _chosen(editor: Editor, programs: Programs) -> EditorKind:
    if editor.command:
        return EditorKind.CUSTOM
    if programs.environ.get("VISUAL"):
        return EditorKind.VISUAL
    if programs.first_of(_VSCODE) is not None:
        return EditorKind.VSCODE
    return EditorKind.JETBRAINS if programs.first_of(_JETBRAINS) is not None else EditorKind.VISUAL


def _vscode(place: SourcePlace, programs: Programs) -> EditorUrl | EditorCommand:
    program, at = programs.first_of(_VSCODE), f"{place.line}:{place.column or 1}"
    if program is None or Path(program).name == "code":
        return EditorUrl(f"vscode://file{_quoted(place.path)}:{at}")
    return EditorCommand((program, "--goto", f"{place.path}:{at}"))


def _jetbrains(place: SourcePlace, programs: Programs) -> EditorCommand:
    program = programs.first_of(_JETBRAINS)
    if program is None:
        raise NoEditorError(
            "no command of a JetBrains editor was found",
            f"none of {', '.join(_JETBRAINS)} is on PATH",
            "create it in the editor or its Toolbox: Tools, Create Command-line Launcher",
        )
    column = ("--column", str(place.column)) if place.column else ()
    return EditorCommand((program, "--line", str(place.line), *column, place.path))


def _visual(place: SourcePlace, programs: Programs) -> EditorCommand:
    words = _words(programs.environ.get("VISUAL") or programs.environ.get("EDITOR") or "", "VISUAL")
    if not words:
        raise NoEditorError(
            "no editor is known", "VISUAL and EDITOR are not set", "choose one in Settings, or set VISUAL"
        )
    name, at = Path(words[0]).name, f"{place.path}:{place.line}"
    in_terminal = name in _IN_TERMINAL or (
        name in ("emacs", "emacsclient") and bool({"-nw", "-t"} & {*words})
    )
    if name in _WITH_GOTO:
        return EditorCommand((*words, "--goto", f"{at}:{place.column or 1}"))
    if name in _WITH_COLON:
        return EditorCommand((*words, at), in_terminal)
    if name == "kate":
        return EditorCommand((*words, "--line", str(place.line), place.path))
    return EditorCommand((*words, f"+{place.line}", place.path), in_terminal)


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FIELD = re.compile(r"\{(file|line|column)\}")


def custom(place: SourcePlace, command: str) -> EditorUrl | EditorCommand:
    """Return what a custom command or URL becomes for a place; without {file}, the path is appended.

    Raises:
        NoEditorError: it is empty, or a quotation mark is not closed.
    """
    values = {"file": place.path, "line": str(place.line), "column": str(place.column or 1)}
    if _URL.match(command.strip()):
        return EditorUrl(_filled(command.strip(), {**values, "file": _quoted(place.path)}))
    words = _words(command, "the command")
    if not words:
        raise NoEditorError("the command of the editor is empty", fix="enter one in Settings")
    filled = [words[0], *(_filled(word, values) for word in words[1:])]
    return EditorCommand((*filled, *(() if "{file}" in command else (place.path,))))


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill all fields at once: a path may contain what looks like a field."""
    return _FIELD.sub(lambda found: values[found[1]], text)


def _words(text: str, what: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise NoEditorError(f"{what} is no command: {text}", error) from error


def _on_node(place: SourcePlace, kind: EditorKind, programs: Programs, entry: NodeEntry | None) -> EditorUrl:
    """Return the URL with which VS Code opens a file over its own SSH connection."""
    if kind is not EditorKind.VSCODE:
        raise NoEditorError(
            f"{place.path} is on node {place.node}, and only VS Code opens files of nodes",
            fix="choose VS Code in Settings, or open a terminal on the node",
        )
    if entry is None:
        raise NoEditorError(f"node {place.node} is not in the node inventory")
    if entry.jump:
        raise NoEditorError(
            f"node {place.node} is reached through jump hosts of the inventory, which VS Code does not read",
            fix="write a Host with ProxyJump into ~/.ssh/config, and name it as the address of the node",
        )
    address = f"[{entry.address}]" if ":" in entry.address else entry.address
    user = f"{entry.user}@" if entry.user else ""
    port = f":{entry.port}" if entry.port else ""
    host = quote(f"{user}{address}{port}", safe="@:[]")
    at = f"{place.line}:{place.column}" if place.column else str(place.line)
    scheme = _SCHEMES[next(filter(programs.find, _VSCODE), "code")]
    return EditorUrl(f"{scheme}://vscode-remote/ssh-remote+{host}{_quoted(place.path)}:{at}")
