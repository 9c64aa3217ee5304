"""Metrics for other programs. Desktop side: not sent to nodes."""

from torchdeck.telemetry.export.errors import ExportError
from torchdeck.telemetry.export.formats import FORMATS, export
from torchdeck.telemetry.export.selection import Selection, select

__all__ = ["FORMATS", "ExportError", "Selection", "export", "select"]
