"""Consoles of rich that show foreign text as it is: no markup in it counts, and no character of it acts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from torchdeck.cli.output import unguarded
from torchdeck.shown_text import shown


class SafeConsole(Console):
    """Styles come from our own code alone: texts are sanitised after layout, when they no longer hold any."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with each text safe to show; what moves the cursor is a segment of its own kind."""
        for segment in super().render(renderable, options):
            linked = segment.style is not None and segment.style.link is not None
            if segment.control or (segment.text.isprintable() and not linked):
                yield segment
            else:
                style = segment.style.update_link(None) if segment.style and linked else segment.style
                yield Segment(shown(segment.text), style)


def make_console(*, to_stderr: bool = False, **options: Any) -> SafeConsole:
    """A console on standard output or standard error.

    Args:
        to_stderr: on standard error.
        options: others of rich's.
    """
    stream = unguarded(sys.stderr if to_stderr else sys.stdout)
    return SafeConsole(file=stream, highlight=False, markup=False, emoji=False, **options)
