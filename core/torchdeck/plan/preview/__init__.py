"""The plan of a run as a person wants to see it. Pure."""

from torchdeck.plan.preview.preview import Preview, make_preview

__all__ = ["Preview", "make_preview"]
