"""What an export can fail by."""

from __future__ import annotations


class ExportError(Exception):
    """The export cannot be made; the message says why and what would be right."""
