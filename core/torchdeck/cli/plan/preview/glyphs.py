"""Signs for terminals: the sign that draws a line, and its plain form if there is no UTF-8."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, RenderableType

from torchdeck.cli.console import make_console

WIDEST = 120
"""Most columns used, however wide the terminal is."""
NARROWEST = 60

PLAIN = str.maketrans(
    {
        **dict.fromkeys("█▉▊▋▌▐", "#"),
        **dict.fromkeys("▍▎▏", ""),
        "▓": "%",
        "▒": "+",
        "░": "-",
        "▞": "=",
        "·": ".",
        "×": "x",
        "√": "sqrt ",
        "÷": "/",
        "–": "-",
        "…": "...",
        "⋮": ":",
        "│": "|",
        "→": "->",
        "⚠": "!",
        "✓": "+",
        "✕": "x",
        "◐": "~",
        "−": "-",
        "≈": "~",
        "²": "^2",
    }
)
"""Sign → its replacement in ASCII."""


def make_wide_console(width: int | None = None) -> Console:
    """Return a console on standard output, limited to a readable width."""
    console = make_console(width=width)
    if width is None:
        console.width = max(NARROWEST, min(console.width, WIDEST))
    return console


def show(console: Console, *parts: RenderableType) -> None:
    """Print `parts` one below the other; in plain signs if the terminal has no UTF-8."""
    if console.encoding.lower().replace("-", "").startswith("utf8"):
        console.print(*parts, sep="\n")
        return
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    plain = captured.get().translate(PLAIN)
    console.file.write(plain.encode(console.encoding, "backslashreplace").decode(console.encoding))


# Colours of the preview on a terminal; those of the memory terms are in `torchdeck.plan.preview.bars`.
#
# Series: Okabe and Ito, "Color Universal Design", 2008; distinct with any colour vision.

SERIES = "#2a8ad4"
"""Bars on a terminal."""
GROUPS = ("#2a8ad4", "#12a67c")
"""Shard groups on a terminal, in turn."""
VERDICTS: Mapping[str, str] = {"fits": "green", "tight": "yellow", "does not fit": "red", "unknown": "dim"}
"""Colours on a terminal, named so that its theme suits its background."""
