"""Export formats by name, and the destination of each."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from torchdeck.contract.atomic import sync_folder
from torchdeck.metrics.export.selection import ExportError, Selection
from torchdeck.metrics.series import Owner, Series

# Series as self-contained rows, for text formats.
#
# name, rank, node, attempt, step, time, value      rank is empty for nodes, node for ranks; time in unix
# seconds

COLUMNS = ("name", "rank", "node", "attempt", "step", "time", "value")


Rows = Iterable[tuple[Any, ...]]


def write_csv(columns: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Write comma-separated values after RFC 4180, with a header and newlines at line ends; NaN is nan,
    infinity inf.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def write_jsonl(columns: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Write one JSON object per line; empty fields, such as rank or node, are null."""
    for row in rows:
        values = (json_number(value) if isinstance(value, float) else value for value in row)
        out.write(json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False) + "\n")


def json_number(value: float) -> float | str:
    """Return `value` as JSON can represent it: NaN and infinities as strings, by protobuf's JSON mapping."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _rows(selection: Selection) -> Iterator[tuple[Any, ...]]:
    for name, owner, series in selection:
        rank, node = (owner, None) if isinstance(owner, int) else (None, owner)
        columns = (series.attempts, series.steps, series.times, series.values)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield name, rank, node, *row


_TEXT = {"csv": write_csv, "jsonl": write_jsonl}
FORMATS = (*_TEXT, "parquet", "tensorboard")


def export_rows(columns: Sequence[str], rows: Rows, form: str, out: Path | None) -> None:
    """Write rows in a text format; a file appears only once it is complete.

    Args:
        columns: names of the fields of a row.
        rows: the rows; None is an empty field.
        form: `csv` or `jsonl`.
        out: a file (replaced if it exists); None is standard output.

    Raises:
        ExportError: the file cannot be written.
    """
    if out is None:
        _TEXT[form](columns, rows, sys.stdout)
        return
    try:
        _write_file(out, lambda path: _write_text(columns, rows, form, path))
    except OSError as error:
        raise _not_written(out, error) from error


def _write_text(columns: Sequence[str], rows: Rows, form: str, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _TEXT[form](columns, rows, file)


def _not_written(out: Path, error: OSError) -> ExportError:
    return ExportError(f"{out} cannot be written: {error.strerror or error}")


def export(selection: Selection, form: str, out: Path | None) -> None:
    """Write series in a format; a file or folder appears only once it is complete.

    Args:
        selection: series to write.
        form: one of `FORMATS`.
        out: a file (replaced if it exists) or, for tensorboard, a folder (must not exist); None is standard
            output, for text formats.

    Raises:
        ExportError: it cannot be made; the message says how to fix it.
    """
    if form in _TEXT:
        export_rows(COLUMNS, _rows(selection), form, out)
        return
    if out is None:
        kind = "a folder" if form == "tensorboard" else "a file"
        raise ExportError(f"{form} is written to {kind}: say which with --out PATH")
    try:
        if form == "tensorboard":
            write_event_files(selection, out)
        else:
            _write_file(out, lambda path: write_parquet(selection, path))
    except OSError as error:
        raise _not_written(out, error) from error


def _write_file(out: Path, write: Callable[[Path], None]) -> None:
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        write(temporary)
        temporary.replace(out)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(out.parent)


def write_parquet(selection: Selection, path: Path) -> None:
    """Write one file.

    Raises:
        ExportError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ExportError(
            "parquet needs pyarrow, which is not installed: pip install 'torchdeck[export]'"
        ) from None
    schema = pa.schema(
        [
            ("name", pa.dictionary(pa.int32(), pa.string())),
            ("rank", pa.int32()),
            ("node", pa.dictionary(pa.int32(), pa.string())),
            ("attempt", pa.int32()),
            ("step", pa.int64()),
            ("time", pa.float64()),
            ("value", pa.float64()),
        ]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        for name, owner, series in selection:
            rank, node = (owner, None) if isinstance(owner, int) else (None, owner)
            same = [
                pa.repeat(pa.scalar(item, kind), len(series))
                for item, kind in (
                    (name, pa.string()),
                    (rank, pa.int32()),
                    (node, pa.string()),
                )
            ]
            columns = [
                same[0].dictionary_encode(),
                same[1],
                same[2].dictionary_encode(),
                series.attempts,
                series.steps,
                series.times,
                series.values,
            ]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))


# TensorBoard event files by the tensorboard package: one of its runs for each rank and node. TensorBoard
# keeps values as 32-bit floats.


def write_event_files(selection: Selection, folder: Path) -> None:
    """Write a folder for `tensorboard --logdir`; it appears only once it is complete.

    If steps were repeated, each attempt is a run of its own, unless the selection is effective.

    Raises:
        ExportError: tensorboard is not installed, or `folder` exists.
        OSError: it cannot be written.
    """
    try:
        from tensorboard.summary.writer.event_file_writer import (
            EventFileWriter,
        )
    except ModuleNotFoundError:
        raise ExportError(
            "event files need tensorboard, which is not installed: pip install 'torchdeck[export]'"
        ) from None
    if folder.exists():
        raise ExportError(f"{folder} already exists: name a folder that is not, or move it away")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    writers: dict[str, Any] = {}
    try:
        for name, owner, series in selection:
            for run, part in _runs(owner, series, split=not selection.effective):
                if run not in writers:
                    writers[run] = EventFileWriter(str(temporary / run))
                _add(writers[run], name, part)
        for writer in writers.values():
            writer.close()
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _runs(owner: Owner, series: Series, *, split: bool) -> list[tuple[str, Series]]:
    """Return the names of TensorBoard's runs and the series of each."""
    run = f"rank_{owner}" if isinstance(owner, int) else f"node_{owner}"
    attempts = np.unique(series.attempts)
    if not split or len(attempts) < 2:
        return [(run, series)]
    return [(f"{run}/attempt_{number}", series.picked(series.attempts == number)) for number in attempts]


def _add(writer: Any, name: str, series: Series) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    rows = (series.steps.tolist(), series.times.tolist(), series.values.tolist())
    for step, time, value in zip(*rows, strict=True):
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=time, step=step, summary=summary))
