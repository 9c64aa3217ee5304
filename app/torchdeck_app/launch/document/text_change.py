"""Difference between two texts as one replaced piece; merging of pieces into one undo step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextChange:
    """Change at offset `at` that replaces `removed` by `inserted`."""

    at: int
    removed: str
    inserted: str

    def apply(self, text: str) -> str:
        """Return `text` with the change applied."""
        return text[: self.at] + self.inserted + text[self.at + len(self.removed) :]

    def undo(self) -> TextChange:
        """Return the inverse change."""
        return TextChange(self.at, self.inserted, self.removed)

    def joined(self, later: TextChange) -> TextChange | None:
        """Return both changes as one if `later` continues the same word, typed or deleted; else None."""
        if not self.removed and not later.removed:
            goes_on = later.at == self.at + len(self.inserted)
            new_word = self.inserted[-1:].isspace() and not later.inserted[:1].isspace()
            if goes_on and not new_word and "\n" not in self.inserted + later.inserted:
                return TextChange(self.at, "", self.inserted + later.inserted)
        if not self.inserted and not later.inserted and "\n" not in later.removed:
            if later.at + len(later.removed) == self.at:
                return TextChange(later.at, later.removed + self.removed, "")
            if later.at == self.at:
                return TextChange(self.at, self.removed + later.removed, "")
        return None


def change_between(before: str, after: str) -> TextChange:
    """Return the smallest change from `before` to `after`."""
    start = _common_start(before, after)
    most = min(len(before), len(after)) - start
    end = _common_end(before, after, most)
    return TextChange(start, before[start : len(before) - end], after[start : len(after) - end])


def _common_start(one: str, other: str) -> int:
    """Find the common prefix by bisection with slice comparisons: letter by letter is slow in a long text."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
