"""Text bars."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from torchdeck.plan.preview.terms import TERMS

_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int, colour: str) -> Text:
    """Return a bar of `share` of `width` columns, to an eighth of one; padded to `width`."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    text = "█" * whole + (_EIGHTHS[rest] if rest else "")
    if share > 0 and not text:
        text = _EIGHTHS[1]
    return Text.assemble((text, colour), " " * (width - len(text)))


def stacked_bar(parts: Mapping[str, int], scale: float, width: int, mark: float | None = None) -> Text:
    """Return terms one after the other, `scale` being the whole width; a line at `mark`.

    Args:
        parts: name of a term → its size, in order.
        scale: the value that `width` columns represent, in the unit of the parts.
        width: columns.
        mark: where a line is drawn, in the unit of the parts; None: nowhere.
    """
    columns: list[tuple[str, str]] = []
    signs = {term.name: (term.glyph, term.terminal) for term in TERMS}
    reached = 0.0
    for name, count in parts.items():
        reached += count
        columns += [signs[name]] * (round(reached / scale * width) - len(columns))
    columns = columns[:width]
    columns += [(" ", "")] * (width - len(columns))
    if mark is not None:
        columns[min(width - 1, round(mark / scale * width))] = ("│", "bold")
    return Text.assemble(*columns)


def legend(sizes: Mapping[str, str]) -> list[Text]:
    """Return one entry for each term of `sizes`: its sign, name and size, which may be empty."""
    entries = []
    for term in TERMS:
        if term.name in sizes:
            entry = Text.assemble((term.glyph * 2, term.terminal), f" {term.name}")
            entries.append(entry.append(f" {sizes[term.name]}", "bold") if sizes[term.name] else entry)
    return entries


def flowed(entries: list[Text], width: int, gap: int = 3) -> list[Text]:
    """Lay out `entries` side by side on as few lines of `width` columns as they need."""
    lines: list[Text] = []
    for entry in entries:
        if lines and lines[-1].cell_len + gap + entry.cell_len <= width:
            lines[-1].append(" " * gap).append_text(entry)
        else:
            lines.append(entry.copy())
    return lines
