"""Write a report of runs to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.report.content import read_report
from torchdeck.runs.report.page import html_page
from torchdeck.runs.table.row import Row


def write_report(
    rows: Sequence[Row], target: Path, progress: Callable[[str], object] = lambda _: None
) -> None:
    """Write one HTML page about runs; a file at `target` is replaced.

    Raises:
        Refusal: the runs cannot be read, or the file cannot be written.
    """
    content = html_page(read_report(rows, progress))
    try:
        write_bytes(target, content.encode("utf-8"), durable=False)
    except OSError as error:
        raise Refusal(f"{target} cannot be written", error.strerror or error) from error
