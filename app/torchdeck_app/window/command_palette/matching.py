"""Match quality of a text for a query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

_STARTS = 8
"""Maximum start positions tried for scattered letters."""
_SUBSTRING = 100.0
_WORD_START = 40.0
_TEXT_START = 20.0
_RECENT = 15.0
_KEYWORD, _KEYWORD_BEGUN = 80.0, 10.0
"""Scores: a whole keyword counts more than scattered letters, a keyword prefix less than any match in the
text.
"""
_KEYWORD_LEAST = 3
"""Minimum letters of a keyword prefix: fewer match too many."""
T = TypeVar("T")


class Match(NamedTuple):
    """Match of a text."""

    score: float
    positions: tuple[int, ...]
    """Positions of the matching letters, to highlight."""


def match(query: str, text: str, beside: str = "", keywords: Collection[str] = ()) -> Match | None:
    """Return how `text` matches: each word of `query` occurs in it, whole or as letters in order; None else.

    Args:
        query: words in any order.
        text: text to search, to which positions refer.
        beside: additional text; a word found whole in it matches too.
        keywords: additional search words in lower case.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that lowers to two would shift positions
        lowered = text
    score, positions = 0.0, set[int]()
    for word in query.lower().split():
        found = _whole(word, lowered) or _strewn(word, lowered)
        if word in beside.lower() and (found is None or found.score < _SUBSTRING):
            found = Match(_SUBSTRING / 2, ())
        if word in keywords and (found is None or found.score < _KEYWORD):
            found = Match(_KEYWORD, ())
        if found is None and len(word) >= _KEYWORD_LEAST and any(key.startswith(word) for key in keywords):
            found = Match(_KEYWORD_BEGUN, ())
        if found is None:
            return None
        score += found.score
        positions.update(found.positions)
    return Match(score, tuple(sorted(positions)))


def ranked(
    query: str, texts: Iterable[tuple[T, str, str, Collection[str]]], recent: Sequence[T]
) -> list[tuple[T, Match]]:
    """Return the matches, best first; recently used ones come before equal ones.

    Args:
        query: the input; if empty, everything matches and recent ones come first.
        texts: (key, text, additional text, keywords) in the order in which equal ones stay.
        recent: keys, newest first.
    """
    lately = {key: len(recent) - index for index, key in enumerate(recent)}
    found = []
    for key, text, beside, keywords in texts:
        fit = match(query, text, beside, keywords)
        if fit is not None:
            bonus = _RECENT + lately[key] if key in lately else 0.0
            found.append((key, fit, fit.score + bonus))
    found.sort(key=lambda entry: -entry[2])
    return [(key, fit) for key, fit, _ in found]


def _whole(word: str, text: str) -> Match | None:
    """Match the whole word, preferably at the start of a word of the text."""
    best = None
    at = text.find(word)
    while at >= 0:
        score = _SUBSTRING + _TEXT_START * (at == 0) + _WORD_START * _begins(text, at) - at / 100
        if best is None or score > best.score:
            best = Match(score, tuple(range(at, at + len(word))))
        at = text.find(word, at + 1)
    return best


def _strewn(word: str, text: str) -> Match | None:
    """Match its letters in order with others between: word starts score, gaps cost."""
    best = None
    start = text.find(word[0])
    for _ in range(_STARTS):
        if start < 0:
            break
        positions = _after(word, text, start)
        if positions is None:
            break
        starts = sum(_begins(text, at) for at in positions)
        gaps = positions[-1] - positions[0] + 1 - len(word)
        score = 40.0 + 8.0 * starts - gaps
        if best is None or score > best.score:
            best = Match(score, positions)
        start = text.find(word[0], start + 1)
    return best


def _after(word: str, text: str, start: int) -> tuple[int, ...] | None:
    positions = [start]
    for letter in word[1:]:
        at = text.find(letter, positions[-1] + 1)
        if at < 0:
            return None
        positions.append(at)
    return tuple(positions)


def _begins(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
