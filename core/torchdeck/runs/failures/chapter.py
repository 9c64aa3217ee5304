"""Known causes of failures and their remedies: the troubleshooting chapter bundled with Torchdeck.

The chapter is `troubleshooting.md` among the resources. Each section begins with a comment that holds its
signs, one regular expression per line, and comes before sections that may be its consequences. A paragraph
that begins with "In a recipe:" or "In a script:" is for programs of that kind.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files

LONGEST_LINE = 300
_SECTION = re.compile(
    r"^## (?P<title>.+)\n+<!--\n(?P<signs>(?s:.*?))-->\n+(?P<text>(?s:.*?))(?=^## |\Z)", re.MULTILINE
)
_SIGN = re.compile(r"^sign: (.+)$", re.MULTILINE)
_CONSEQUENCE = re.compile(r"^consequence:", re.MULTILINE)
Source = tuple[str, list[str]]
"""Source of the lines, and the lines."""


class Program(Enum):
    """Program of a run, by the words that begin a paragraph for it."""

    RECIPE = "In a recipe: "
    """It has all keys of run.toml."""
    SCRIPT = "In a script: "
    """It has settings of its own."""


@dataclass(frozen=True)
class Advice:
    """One section of the chapter."""

    title: str
    signs: tuple[re.Pattern[str], ...]
    text: str
    """Its paragraphs, as in the chapter."""
    consequence: bool
    """Whether the cause may be in another rank, which is then searched for."""
    section: str = ""
    """The chapter's section, if the title is another one."""

    @property
    def page(self) -> str:
        """The section's page in the documentation, as `torchdeck docs` takes it."""
        if not self.signs and not self.section:
            return "trouble/failed"
        title = self.section or self.title
        return f"trouble/failed#{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}"

    def for_program(self, program: Program) -> Advice:
        """Return the advice without paragraphs for other kinds of programs."""
        kept = []
        for paragraph in self.text.split("\n\n"):
            own = next((kind for kind in Program if paragraph.startswith(kind.value)), program)
            if own is program:
                paragraph = paragraph.removeprefix(program.value)
                kept.append(f"{paragraph[:1].upper()}{paragraph[1:]}")
        return dataclasses.replace(self, text="\n\n".join(kept))


@dataclass(frozen=True)
class Recognised:
    """Sign found in a log."""

    advice: Advice
    where: str
    """`rank 1`, or `torchrun`."""
    line: str
    """Line in which it was found."""

    def to_json(self) -> dict[str, str]:
        return {"title": self.advice.title, "where": self.where, "line": self.line, "text": self.advice.text}


def chapter() -> tuple[Advice, ...]:
    """Return all sections, in their order."""
    text = (files("torchdeck_resources") / "troubleshooting.md").read_text(encoding="utf-8")
    return tuple(
        Advice(
            found["title"].strip(),
            tuple(re.compile(sign) for sign in _SIGN.findall(found["signs"])),
            found["text"].strip(),
            _CONSEQUENCE.search(found["signs"]) is not None,
        )
        for found in _SECTION.finditer(text)
    )


def recognise(sources: Iterable[Source]) -> Recognised | None:
    """Return the first section of the chapter that has a sign in one of `sources`."""
    texts = list(sources)
    for advice in chapter():
        for who, lines in texts:
            for line in lines:
                if any(sign.search(line) for sign in advice.signs):
                    return Recognised(advice, who, line.strip()[:LONGEST_LINE])
    return None
