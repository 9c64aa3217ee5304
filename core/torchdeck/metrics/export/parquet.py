"""Parquet by pyarrow: the columns of rows.py, one row group a series."""

from __future__ import annotations

from pathlib import Path

from torchdeck.metrics.export.errors import ExportError
from torchdeck.metrics.export.selection import Selection


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
