"""Progress bars as tqdm, rich and Keras draw them.

Standard library, Python 3.10: the agent reads output with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# every repeat has a bound, and none is nested in another that could match the same text: no line costs more
# than its length times a constant
_TQDM = re.compile(
    r"(?:\|[^|\n]{0,512}\|[ \t]{0,8})(?P<done>\d{1,12})/(?P<total>\d{1,12}|\?)(?![\w./-])"
    r"(?:[ \t]{1,8}\[(?P<elapsed>[\d:]{4,12})<[^,\]]{1,24},[ \t]{0,8}"
    r"(?:\d{1,12}(?:\.\d{1,6})?(?P<unit>[A-Za-z ]{1,16}/s|s/[A-Za-z ]{1,16})|"
    r"\?(?P<first>[A-Za-z ]{1,16}/s)?[^,\]]{0,16}))?"
)
_UNBOUNDED = re.compile(
    r"(?:^|:)[ \t]{0,8}(?P<done>\d{1,12})(?P<noun>it|step|steps|batch|batches)[ \t]"
    r"\[(?P<elapsed>[\d:]{4,12}),[ \t]{0,8}"
    r"(?:\d{1,12}(?:\.\d{1,6})?(?P<unit>[A-Za-z ]{1,16}/s|s/[A-Za-z ]{1,16})|"
    r"\?(?P<first>[A-Za-z ]{1,16}/s)?[^,\]]{0,16})"
)
_RICH = re.compile(
    r"(?<![━╸╺─])[━╸╺─]{1,256}[ \t]{1,8}(?:\d{1,3}%[ \t]{1,8})?"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12})(?![\w./-])"
    r"(?:[ \t]{1,8}(?P<elapsed>[\d:]{4,12})(?:[ \t]{1,8}•)?[ \t]{1,8}[\d:-]{4,12}"
    r"(?:[ \t]{1,8}\d{1,12}(?:\.\d{1,6})?(?P<unit>it/s|s/it))?)?"
)
_KERAS = re.compile(
    r"^[ \t\x08]{0,8}(?P<done>\d{1,12})/(?P<total>\d{1,12})[ \t]"
    r"[━─]{1,64}[ \t]{1,4}(?P<elapsed>[\dhms:]{2,12})[ \t]{1,4}\d{1,9}(?:us|ms|s)/step"
)
_PERCENT = re.compile(r"[ \t:]{0,8}(?:\d{1,3}%)?[ \t]{0,8}$")
_NESTED = re.compile(r"(?:\x1b\[A)+[ \t]{0,512}$")
_NO_STEPS = re.compile(r"B/s|examples|shards?/s|files?/s|tokens?/s|frames?/s|param", re.IGNORECASE)
"""Units of bars that count something else than steps."""


@dataclass(frozen=True)
class Bar:
    """A bar as it was drawn once."""

    label: str
    """Text before the bar, without its percentage."""
    done: int
    total: int | None
    unit: str
    """As drawn: `it/s`, `examples/s`; empty if unknown."""
    depth: int
    """Bars above it on the screen."""
    rest: str
    """Text around the bar itself, in which its values are."""
    kind: str
    """`tqdm`, `rich` or `keras`."""

    @property
    def counts_steps(self) -> bool:
        """Whether its unit can be steps."""
        return not _NO_STEPS.search(self.unit)


def find_bar(text: str, *, depth: int = 0) -> Bar | None:
    """Return the bar in a line; None if there is none.

    Args:
        text: the line, without escape sequences.
        depth: bars above it, from `nesting`.
    """
    for pattern, kind in ((_TQDM, "tqdm"), (_RICH, "rich"), (_KERAS, "keras"), (_UNBOUNDED, "tqdm")):
        match = pattern.search(text)
        if match is not None and _is_drawn(text, match, pattern):
            return _bar(text, match, kind, depth)
    return None


def _is_drawn(text: str, match: re.Match[str], pattern: re.Pattern[str]) -> bool:
    """Return whether it is a bar, not cells of a table with a fraction in one."""
    return pattern is not _TQDM or match["elapsed"] is not None or text[: match.start()].endswith("%")


def _bar(text: str, match: re.Match[str], kind: str, depth: int) -> Bar:
    found = match.groupdict()
    total = found.get("total")
    label = _PERCENT.sub("", text[: match.start()]).strip()
    return Bar(
        label=label,
        done=int(found["done"]),
        total=int(total) if total is not None and total != "?" else None,
        unit=(found.get("unit") or found.get("first") or "").strip(),
        depth=depth,
        rest=f"{label} {text[match.end() :]}",
        kind=kind,
    )


def nesting(line: str) -> int:
    """Return how many bars are above the one that `line` draws: tqdm moves the cursor up again after it."""
    if "\x1b[A" not in line:
        return 0
    match = _NESTED.search(line)
    return 0 if match is None else match[0].count("\x1b[A")


def is_cleared(line: str) -> bool:
    """Return whether `line` wipes a bar, as tqdm does before a line is written above it."""
    return line.isspace()
