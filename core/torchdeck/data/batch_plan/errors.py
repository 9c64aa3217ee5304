"""Error class of this package."""

from __future__ import annotations


class BatchPlanError(ValueError):
    """A batch plan cannot be built, read, written or sharded; the message says what to do."""
