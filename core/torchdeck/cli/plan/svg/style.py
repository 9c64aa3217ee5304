"""Colours and fonts of the picture; dark if the viewer prefers it."""

from __future__ import annotations

from torchdeck.plan.preview.bars import TERMS

BODY = 13
"""Font size of texts, px."""
HEADING = 14
TITLE = 22
SMALL = 11
LINE = 20
"""Line height, px."""

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'

_LIGHT = {
    "page": "#fafafa", "panel": "#ffffff", "line": "#e5e7eb", "text": "#1f2328", "dim": "#57606a",
    "track": "#eef0f3", "series": "#0072b2", "even": "#dcebf7", "odd": "#dff3ec", "evenline": "#0072b2",
    "oddline": "#009e73", "fits": "#1a7f37", "tight": "#9a6700", "misfit": "#cf222e",
}  # fmt: skip
_DARK = {
    "page": "#16181d", "panel": "#1e2127", "line": "#2d3139", "text": "#e6e8eb", "dim": "#9aa4b2",
    "track": "#2a2e36", "series": "#3d9be0", "even": "#1f3a52", "odd": "#1d4238", "evenline": "#3d9be0",
    "oddline": "#1fb88d", "fits": "#4ac26b", "tight": "#d4a72c", "misfit": "#ff7b72",
}  # fmt: skip

VERDICT_CLASSES = {"fits": "fits", "tight": "tight", "does not fit": "misfit", "unknown": "dim"}


def style_sheet() -> str:
    """Return the CSS of the whole picture."""
    light = {**_LIGHT, **{f"t-{term.name}": term.light for term in TERMS}}
    dark = {**_DARK, **{f"t-{term.name}": term.dark for term in TERMS}}
    return (
        f"text{{font-family:{_FONT};font-variant-numeric:tabular-nums}}\n"
        ".bold{font-weight:600}\n"
        f"{_rules(light)}\n"
        f"@media (prefers-color-scheme: dark){{\n{_rules(dark)}\n}}"
    )


def _rules(colours: dict[str, str]) -> str:
    fills = [f".{name}{{fill:{colour}}}" for name, colour in colours.items()]
    strokes = [
        f".panel{{stroke:{colours['line']}}}",
        f".even{{stroke:{colours['evenline']}}}",
        f".odd{{stroke:{colours['oddline']}}}",
        f".rule{{stroke:{colours['text']};stroke-width:1.5}}",
    ]
    return "\n".join([*fills, *strokes])
