"""In which colour it is said whether memory suffices. Without Qt."""

from __future__ import annotations

from collections.abc import Mapping

VERDICT_COLOURS: Mapping[str, str] = {
    "fits": "good",
    "tight": "warn",
    "does not fit": "bad",
    "unknown": "quiet",
}
"""Verdict → name of a colour of the palette. Its sign is in `torchdeck.plan.preview.terms`."""
