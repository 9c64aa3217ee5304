"""Colours of memory verdicts. Without Qt."""

from __future__ import annotations

from collections.abc import Mapping

VERDICT_COLOURS: Mapping[str, str] = {
    "fits": "good",
    "tight": "warn",
    "does not fit": "bad",
    "unknown": "quiet",
}
"""Verdict → name of a palette colour. Its symbol is in `torchdeck.plan.preview.terms`."""
