"""The formats by name, and where each goes."""

from __future__ import annotations

import sys
from pathlib import Path

from torchdeck.contract.atomic import sync_folder
from torchdeck.metrics.export.errors import ExportError
from torchdeck.metrics.export.event_files import write_event_files
from torchdeck.metrics.export.parquet import write_parquet
from torchdeck.metrics.export.rows import write_csv, write_jsonl
from torchdeck.metrics.export.selection import Selection

_TEXT = {"csv": write_csv, "jsonl": write_jsonl}
FORMATS = (*_TEXT, "parquet", "tensorboard")


def export(selection: Selection, form: str, out: Path | None) -> None:
    """Write series in a format; a file or folder appears when it is whole.

    Args:
        selection: what to write.
        form: one of `FORMATS`.
        out: a file (replaced if there) or, for tensorboard, a folder (must not be there); None is standard
            output, for formats of text.

    Raises:
        ExportError: it cannot be made; the message says what would be right.
    """
    if out is None:
        if form not in _TEXT:
            kind = "a folder" if form == "tensorboard" else "a file"
            raise ExportError(f"{form} is written to {kind}: say which with --out PATH")
        _TEXT[form](selection, sys.stdout)
        return
    try:
        if form == "tensorboard":
            write_event_files(selection, out)
        else:
            _write_file(selection, form, out)
    except OSError as error:
        raise ExportError(f"{out} cannot be written: {error.strerror or error}") from error


def _write_file(selection: Selection, form: str, out: Path) -> None:
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        if form == "parquet":
            write_parquet(selection, temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                _TEXT[form](selection, file)
        temporary.replace(out)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(out.parent)
