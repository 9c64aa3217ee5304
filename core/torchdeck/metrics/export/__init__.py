"""Export of metrics to other programs. Desktop side: not sent to nodes."""

from torchdeck.metrics.export.formats import FORMATS, export, export_rows
from torchdeck.metrics.export.selection import ExportError, Selection, select

__all__ = ["FORMATS", "ExportError", "Selection", "export", "export_rows", "select"]
