"""Sanitising of untrusted text for display, on a terminal and in the window.

A rank's output, a node's answers, and foreign names of files, runs and nodes can act on the reader's
terminal. Escape sequences move the cursor, write to the clipboard (OSC 52) or set a title (ECMA-48, xterm's
ctlseqs). Bidirectional controls make one text look like another (https://trojansource.codes), and some
characters are invisible. All foreign text that is shown passes here.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Replacement for each character that must not be shown."""
_FORBIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # bidirectional controls
    "\u180e\u200b\u2028\u2029\u2060-\u2065\ufeff"  # zero-width characters, or unusual line ends
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"  # annotations, noncharacters, and surrogates
    "\U000e0000-\U000e007f"  # tags, which repeat ASCII invisibly
)
_CHARACTER = re.compile(f"[{_FORBIDDEN}]")
_STRING = r"[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_STRING}"
    r"|\x1b[ -/]*[0-~]"
)
"""A control sequence, a control string up to its end (or the next escape), or another escape (ECMA-48, 5)."""
_IN_LOGS = re.compile(f"{_SEQUENCE}|(?P<character>[{_FORBIDDEN}])")
_COLOURS = frozenset(
    ["", *map(str, (0, 1, 2, 3, 4, 7, 9, 21, 22, 23, 24, 27, 29, 39, 49))]
    + [str(number) for first in (30, 40, 90, 100) for number in range(first, first + 8)]
)
"""SGR codes allowed for a rank: colours, weight, underline, reverse; not blinking (5) nor invisible (8)."""
_EXTENDED = re.compile(r"[34]8;(?:5;\d{1,3}|2;\d{1,3};\d{1,3};\d{1,3})(?=;|$)")
_RESET = "\x1b[0m"


def shown(text: str) -> str:
    """Return `text` with every character replaced that could act on a terminal or mislead; tabs and lines
    stay.
    """
    if text.isprintable():  # fast, and false for all forbidden characters
        return text
    return _CHARACTER.sub(REPLACEMENT, text.replace("\r\n", "\n"))


def hidden_places(text: str) -> Iterator[int]:
    """Return an iterator over the positions in `text` of the characters that `shown` replaces."""
    return (match.start() for match in _CHARACTER.finditer(text))


def shown_line(text: str) -> str:
    """Return `text` as `shown`, on one line: it cannot look like several messages."""
    return " ".join(shown(text).split())


def shown_log(text: str, *, colours: bool = False) -> str:
    """Return the output `text` of a rank as `shown`, except that its escape sequences are removed instead of
    replaced.

    Args:
        text: one line, or several.
        colours: keep the sequences that set allowed colours, and reset them at the end.
    """
    if text.isprintable():
        return text
    last = ""

    def safe(match: re.Match[str]) -> str:
        nonlocal last
        if match["character"] is not None:
            return REPLACEMENT
        if not colours or match["final"] != "m" or match["between"]:
            return ""
        kept = _allowed(match["parameters"])
        last = kept or last
        return kept

    kept = _IN_LOGS.sub(safe, text.replace("\r\n", "\n"))
    return kept if last in ("", _RESET) else f"{kept}{_RESET}"


def shown_json(text: str) -> str:
    """Return the JSON document `text` with forbidden characters escaped: equivalent and safe to show."""
    if text.isprintable():
        return text
    return _CHARACTER.sub(_escaped, text)


def _allowed(parameters: str) -> str:
    """Return the sequence that sets the allowed ones of `parameters`; empty if none is."""
    kept, at = [], 0
    while at <= len(parameters):
        extended = _EXTENDED.match(parameters, at)
        end = parameters.find(";", at) if extended is None else extended.end()
        word = parameters[at : len(parameters) if end < 0 else end]
        if extended is not None or word.lstrip("0") in _COLOURS or word == "0":
            kept.append(word.lstrip("0") or "0")
        if end < 0:
            break
        at = end + 1
    return f"\x1b[{';'.join(kept)}m" if kept else ""


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
