"""What is marked in the lines that are in sight, as long as it is quick to find."""

from __future__ import annotations

from torchdeck.runs.logs.line_pattern import LinePattern, SlowPatternError

SECONDS = 0.05
"""Of looking in one line that is being painted."""


class Highlight:
    """A pattern, or nothing; one that takes too long is not asked again."""

    def __init__(self, pattern: LinePattern | None = None) -> None:
        self._pattern = pattern

    def spans(self, text: str) -> list[tuple[int, int]]:
        """What to mark: (first letter, letter behind the last)."""
        if self._pattern is None:
            return []
        try:
            return self._pattern.spans(text, SECONDS)
        except SlowPatternError:
            self._pattern = None
            return []
