"""Document in the window's session: a saved one by its path, unsaved edits as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files.document_file import DocumentFile


def document_state(file: DocumentFile, document: RunDocument) -> dict[str, Any]:
    """Return the state for `restore_document`, as JSON values."""
    path, base = document.path, file.base
    return {
        "path": None if path is None else str(path),
        "name": file.name,
        # a saved document is read from its file again
        "text": None if file.is_saved else document.text,
        "begun": None if file.is_saved else (file.begun if base is None else base.text),
        "has_file": base is not None,
        "newline": file.newline,
    }


def restore_document(file: DocumentFile, state: Mapping[str, Any]) -> None:
    """Open the last document; an invalid state is ignored."""
    path, text, begun, name = (state.get(key) for key in ("path", "text", "begun", "name"))
    where = Path(path) if isinstance(path, str) else None
    if isinstance(text, str) and isinstance(begun, str):
        called = name if isinstance(name, str) else "run"
        newline = "\r\n" if state.get("newline") == "\r\n" else "\n"
        file.restore(text, where, begun, called, has_file=state.get("has_file") is True, newline=newline)
    elif where is not None:
        file.open(where)
