"""Readable preview of a run's plan. Pure."""

from torchdeck.plan.preview.preview import Preview, make_preview

__all__ = ["Preview", "make_preview"]
