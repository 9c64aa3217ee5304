"""Parquet by pyarrow: the columns of rows.py, one row group a series."""

from __future__ import annotations

from pathlib import Path

from torchdeck.telemetry.export.errors import ExportError
from torchdeck.telemetry.export.selection import Selection


def write_parquet(selection: Selection, path: Path) -> None:
    """Write one file.

    Raises:
        ExportError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ExportError(
            "parquet needs pyarrow, which is not installed: pip install 'torchdeck[export]'"
        ) from None
    schema = pyarrow.schema(
        [
            ("name", pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
            ("rank", pyarrow.int32()),
            ("node", pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
            ("attempt", pyarrow.int32()),
            ("step", pyarrow.int64()),
            ("time", pyarrow.float64()),
            ("value", pyarrow.float64()),
        ]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        for name, owner, series in selection:
            rank, node = (owner, None) if isinstance(owner, int) else (None, owner)
            same = [
                pyarrow.repeat(pyarrow.scalar(item, kind), len(series))
                for item, kind in (
                    (name, pyarrow.string()),
                    (rank, pyarrow.int32()),
                    (node, pyarrow.string()),
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
            writer.write_table(pyarrow.table([pyarrow.array(column) for column in columns], schema=schema))
