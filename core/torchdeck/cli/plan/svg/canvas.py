"""Shapes in drawing order, as SVG elements."""

from __future__ import annotations

from torchdeck.cli.plan.svg.style import BODY
from torchdeck.cli.plan.svg.text import escaped, fitted


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
