"""Use case: opens a place in code in the user's editor."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.file import inventory_path, read_inventory
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.use_cases.opening.editor import EditorCommand, EditorUrl, open_at
from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.source import find_source
from torchdeck.use_cases.opening.terminal import in_terminal


def editor_at(
    layout: RunLayout, place: CodePlace, rank: int | None, editor: Editor, programs: Programs
) -> EditorUrl | EditorCommand:
    """Return how the user's editor is opened at a place that a run's output names. Blocks.

    Raises:
        Refusal: the place is not a file, or no editor opens it.
    """
    found = find_source(layout, place, rank)
    entry = None
    if found.node != LOCALHOST:
        entry = read_inventory(inventory_path(layout.home.root)).nodes.get(found.node)
    return open_at(found, editor, programs, entry)


def start_editor(command: EditorCommand, programs: Programs) -> None:
    """Start an editor of the desktop, one for terminals in a terminal window; it outlives this process.

    Raises:
        Refusal: it cannot be started.
    """
    start_program(in_terminal(command.argv, programs) if command.in_terminal else command.argv)


def start_program(argv: tuple[str, ...], folder: Path | None = None) -> None:
    """Start a program of the desktop without a shell, in a session of its own; it is reaped in a thread.

    Raises:
        Refusal: it cannot be started.
    """
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise Refusal(f"{argv[0]} cannot be started", getattr(error, "strerror", None) or error) from error
    threading.Thread(target=process.wait, name=f"reap {argv[0]}", daemon=True).start()
