"""TensorBoard event files by the tensorboard package: one of its runs for each rank and node.

TensorBoard keeps values as 32-bit floats.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from torchdeck.metrics import Owner, Series
from torchdeck.metrics.export.errors import ExportError
from torchdeck.metrics.export.selection import Selection


def write_event_files(selection: Selection, folder: Path) -> None:
    """Write a folder for `tensorboard --logdir`; it appears when it is whole.

    Where steps were done twice, each attempt is a run of its own, unless the selection is effective.

    Raises:
        ExportError: tensorboard is not installed, or something is at `folder`.
        OSError: it cannot be written.
    """
    try:
        from tensorboard.summary.writer.event_file_writer import (  # type: ignore[import-untyped]
            EventFileWriter,
        )
    except ModuleNotFoundError:
        raise ExportError(
            "event files need tensorboard, which is not installed: pip install 'torchdeck[export]'"
        ) from None
    if folder.exists():
        raise ExportError(f"{folder} is there already: name a folder that is not, or move it away")
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
    """The names of TensorBoard's runs and what goes into each."""
    run = f"rank_{owner}" if isinstance(owner, int) else f"node_{owner}"
    attempts = np.unique(series.attempts)
    if not split or len(attempts) < 2:
        return [(run, series)]
    return [(f"{run}/attempt_{number}", series.picked(series.attempts == number)) for number in attempts]


def _add(writer: Any, name: str, series: Series) -> None:
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

    rows = (series.steps.tolist(), series.times.tolist(), series.values.tolist())
    for step, time, value in zip(*rows, strict=True):
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=time, step=step, summary=summary))
