"""A plan as a batch file for cmd.exe that a person runs on a node, without Torchdeck."""

from __future__ import annotations

import re

from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.launch_plan import LaunchPlan, NodePlan
from torchdeck.plan.shell_words import VARIABLES, code_said, shown_name, without_shipped
from torchdeck.plan.slots import escape, split
from torchdeck.plan.torchrun import DEFAULT_PORT, by_its_own_name

MAX_LINE = 8191
"""Longest command line of cmd.exe, in characters."""

_META = re.compile(r'[()^"<>&|!]')
_PLAIN = re.compile(r'[^ \t"]+')
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ExportError(ValueError):
    """A plan cannot be said in a batch file; the message says what stands in the way."""


def export_bat(plan: LaunchPlan, node: NodePlan) -> str:
    """A batch file that starts `node`'s part of `plan`; lines end in CR LF.

    Raises:
        ExportError: an argument or variable holds a line break or another control character, or is too long.
    """
    node = where_it_lies(node, plan.code)
    python = node.command[0]
    torchrun = " ".join(_word(word) for word in by_its_own_name(node.torchrun)[1:])
    command = " ".join(_word(word) for word in node.command[1:])
    lines = [
        "@echo off",
        f"rem {_comment(shown_name(plan))}: node {node.node_rank + 1} of {len(plan.nodes)}.",
        f"rem Plan {plan.fingerprint}.",
        "rem Usage: THIS-FILE [PORT]; set RUN_DIR, RESUME and PYTHON first to change them.",
        "rem PORT and ATTEMPT must be the same on every node.",
        *(f"rem {_comment(line[2:])}" for line in (code_said(plan.code) if starts_in_copy(node) else ())),
        *(["rem The recipe needs Torchdeck: pip install torchdeck[train]"] if plan.kind == "recipe" else []),
        "setlocal EnableExtensions DisableDelayedExpansion",
        "chcp 65001 >nul",
        f"if not defined PYTHON {_set('PYTHON', python)}",
        'set PYTHON_WORD="%PYTHON%"',
        'set "PORT=%~1"',
        f'if not defined PORT set "PORT={DEFAULT_PORT}"',
        f'if not defined RUN_ID set "RUN_ID=exported-{plan.fingerprint[:12]}"',
        'if not defined RUN_DIR set "RUN_DIR=%CD%\\%RUN_ID%"',
        'set "RUN_DIR=%RUN_DIR:\\=/%"',
        'if not defined ATTEMPT set "ATTEMPT=1"',
        *_code(plan, node),
        f"cd /d {_word(node.working_dir)} || exit /b 2",
        *_rank_folders(plan, node),
        *_unset(node),
        *(_set(name, value) for name, value in _environment(node)),
        *_users_path(node),
        f"%PYTHON_WORD% {torchrun} %PYTHON_WORD% {command}",
        "exit /b %ERRORLEVEL%",
    ]
    for line in lines:
        if len(line) > MAX_LINE:
            raise ExportError(
                f"cmd.exe takes {MAX_LINE} characters a line, and {line[:40]!r}… has {len(line)}: "
                "use --export sh"
            )
    return "\r\n".join(lines) + "\r\n"


def _escaped(text: str) -> str:
    """Literal text for a line that cmd.exe never sees as quoted: a caret before all that means something.

    The way of Daniel Colascione, "Everyone quotes command line arguments the wrong way", Microsoft, 2011.
    """
    return _META.sub(lambda match: "^" + match.group(0), text).replace("%", "%%")


def _word(text: str) -> str:
    """`text` as one argument: quoted as the C runtime reads it, then escaped; slots become variables."""
    _refuse_control(text)
    pieces = split(text)
    marked = "".join(literal if not name else _mark(name) for literal, name in pieces)
    # a variable's value may hold spaces, so what has one is quoted too
    plain = marked and not any(name for _, name in pieces) and _PLAIN.fullmatch(marked)
    quoted = marked if plain else _runtime_quoted(marked)
    return _unmarked(_escaped(quoted))


def _runtime_quoted(text: str) -> str:
    """`text` in quotes as the Microsoft C runtime reads them: backslashes count only before a quote."""
    doubled = re.sub(r'(\\*)"', r'\1\1\\"', text)
    doubled = re.sub(r"(\\+)$", r"\1\1", doubled)
    return f'"{doubled}"'


def _set(name: str, value: str) -> str:
    _refuse_control(value)
    marked = "".join(literal if not slot else _mark(slot) for literal, slot in split(value))
    return f'set ^"{name}={_unmarked(_escaped(marked))}^"'


_MARKS = {name: chr(number) for number, name in enumerate(VARIABLES, start=1)}
"""Slot → a control character that stands for it while a text is quoted; a user's text never holds one."""


def _mark(slot: str) -> str:
    return _MARKS[slot]


def _unmarked(text: str) -> str:
    for slot, mark in _MARKS.items():
        text = text.replace(mark, f"%{VARIABLES[slot]}%")
    return text


def _refuse_control(text: str) -> None:
    match = _CONTROL.search(text)
    if match is not None:
        raise ExportError(
            f"{text[:60]!r} holds {match.group(0)!r}, which no batch file can pass on: use --export sh"
        )


def _comment(text: str) -> str:
    return re.sub(r"[^\w .,:+-]", " ", text)


def _environment(node: NodePlan) -> list[tuple[str, str]]:
    """What is set; cmd.exe cannot set a variable to nothing, and -1 hides GPUs as nothing would."""
    return [
        (name, "-1" if name == "CUDA_VISIBLE_DEVICES" and not value else value)
        for name, value in node.env.items()
        if name != "PYTHONPATH"
    ]


def _rank_folders(plan: LaunchPlan, node: NodePlan) -> list[str]:
    ranks = [rank.rank for rank in plan.ranks if rank.node_rank == node.node_rank]
    return [
        f'if not exist "%RUN_DIR%/attempts/%ATTEMPT%/ranks/{rank}/" '
        f'mkdir "%RUN_DIR:/=\\%\\attempts\\%ATTEMPT%\\ranks\\{rank}"'
        for rank in ranks
    ]


def _unset(node: NodePlan) -> list[str]:
    lines = []
    for name in node.unset:
        if name.endswith("*"):
            lines.append(f'for /f "delims==" %%v in (\'set {name[:-1]} 2^>nul\') do set "%%v="')
        else:
            lines.append(f'set "{name}="')
    return lines


def _code(plan: LaunchPlan, node: NodePlan) -> list[str]:
    """CODE, where the node starts in a copy of the code."""
    if not starts_in_copy(node):
        return []
    if not plan.code.folder:
        return ["if not defined CODE echo set CODE to the folder of your code >&2 & exit /b 2"]
    return [f"if not defined CODE {_set('CODE', escape(plan.code.folder))}"]


def _users_path(node: NodePlan) -> list[str]:
    """PYTHONPATH without the shipped folder: an exported plan uses an installed Torchdeck."""
    rest = without_shipped(node.env.get("PYTHONPATH", ""))
    return [_set("PYTHONPATH", rest)] if rest else []
