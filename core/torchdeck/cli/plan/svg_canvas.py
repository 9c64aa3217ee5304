"""Shapes in drawing order, as SVG elements."""

from __future__ import annotations

import re
import unicodedata
from xml.sax.saxutils import escape

from torchdeck.cli.plan.placement import cut, node_name
from torchdeck.plan.preview.memory_bars import TERMS
from torchdeck.shown_text import shown

# Colours and fonts of the picture; dark if the viewer prefers it.

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


class Canvas:
    """Collector of SVG elements; lengths are px, y grows downwards."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    @property
    def elements(self) -> str:
        """Return all elements, in drawing order."""
        return "\n".join(self._elements)

    def add(self, other: Canvas) -> None:
        """Draw the elements of `other` on top."""
        self._elements += other._elements

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        *,
        radius: float = 0,
        title: str = "",
    ) -> None:
        """Draw a rectangle of class `kind`; `title` is its tooltip."""
        rounded = f' rx="{_number(radius)}"' if radius else ""
        shape = (
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
            f'{rounded} class="{kind}"'
        )
        self._elements.append(f"{shape}><title>{escaped(title)}</title></rect>" if title else f"{shape}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        kind: str = "text",
        *,
        size: float = BODY,
        room: float | None = None,
        full: str = "",
        anchor: str = "start",
    ) -> None:
        """Draw a line of text with its baseline at `y`; shortened to `room` if that is given.

        `full` is the full text if `text` was shortened already: shown as tooltip.
        """
        shown = text if room is None else fitted(text, size, room)
        text = full or text
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        inside = escaped(shown) if shown == text else f"<title>{escaped(text)}</title>{escaped(shown)}"
        self._elements.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}"{where} class="{kind}">'
            f"{inside}</text>"
        )

    def vertical(self, x: float, top: float, bottom: float) -> None:
        """Draw a line that marks a limit."""
        self._elements.append(
            f'<path d="M{_number(x)} {_number(top)}V{_number(bottom)}" class="rule" fill="none"/>'
        )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


# Texts in a picture: escaped, and short enough for their space.

_WORD = re.compile(r"[\d.,]+ (?:[KMGT]?i?B|ms|s|%)(?!\w)\S*|\S+")
"""One word, or one quantity."""
_NARROW = frozenset(" .,:;'|!ijltfrI()[]·-")
_WIDE = frozenset("mwMW@%…—→")
_SAFETY = 1.04
"""Safety factor, as fonts differ; the widest of the usual ones decides."""


def escaped(text: str) -> str:
    """Escape `text` for XML, between tags or in an attribute."""
    return escape(shown(text), {'"': "&quot;"})  # `shown` leaves only what XML 1.0 can hold (section 2.2)


def text_width(text: str, size: float) -> float:
    """Estimate the width of `text` at font size `size`, in the same unit; rather too wide than too narrow."""
    return sum(map(_em, text)) * size * _SAFETY


def fitted(text: str, size: float, room: float) -> str:
    """Return `text`, its middle left out if it is wider than `room`."""
    return cut(text, lambda short: text_width(short, size) <= room)


def fitted_name(name: str, size: float, room: float) -> str:
    """Return a node's name, shortened so that its numbers stay."""
    return node_name(name, lambda short: text_width(short, size) <= room)


def wrapped(text: str, size: float, room: float) -> list[str]:
    """Wrap `text` on as many lines as it needs; a word wider than a line is shortened.

    A unit stays with its number.
    """
    lines: list[str] = []
    for word in _WORD.findall(text):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(fitted(word, size, room))
    return lines


def _em(character: str) -> float:
    """Return the width of a character in the usual sans serif fonts, in em."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    return 0.69 if character.isupper() else 0.6
