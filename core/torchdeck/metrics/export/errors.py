"""Errors of an export."""

from __future__ import annotations

from torchdeck.contract.refusal import Refusal


class ExportError(Refusal):
    """The export cannot be made; the message says why and how to fix it."""
