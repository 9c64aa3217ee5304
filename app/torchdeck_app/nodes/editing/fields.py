"""The fields of a node, made from the schema: names, help, and how a value is typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from torchdeck.nodes.book.schema import NodeEntry

HEADINGS: Mapping[str, tuple[str, ...]] = {
    "How it is reached": ("address", "port", "user", "key", "jump"),
    "Its Python": ("python", "venv", "conda", "activate"),
}
"""Which keys stand under which heading; those that are new in the schema stand under the last."""
LAST_HEADING = "What runs use of it"
_REQUIRED = {"address": "required: a name, an address, a Host of ~/.ssh/config"}
_ABSENT = re.compile(r"absent: (.+?)(?:[.;:]\s|\.?$)")


@dataclass(frozen=True)
class Field:
    """One key of a node."""

    name: str
    help: str
    absent: str
    """What holds while nothing is written; of what must be written, what it is."""
    required: bool
    is_list: bool
    is_number: bool

    @property
    def label(self) -> str:
        """Its name for people: the key's own, so that it is found in the file, with blanks."""
        return self.name.replace("_", " ")

    def value(self, text: str) -> Any:
        """What was typed, None for nothing; what is no number stays text, which the schema then refuses."""
        if not self.is_list:
            return self._one(text.strip()) if text.strip() else None
        items = [self._one(part.strip()) for part in text.split(",") if part.strip()]
        return items or None

    def text(self, value: Any) -> str:
        """A value as it is typed."""
        if value is None:
            return ""
        return ", ".join(map(str, value)) if self.is_list else str(value)

    def _one(self, text: str) -> Any:
        return int(text) if self.is_number and re.fullmatch(r"-?[0-9]{1,9}", text) else text


def fields_by_heading() -> dict[str, list[Field]]:
    """All keys of a node, in the schema's order."""
    found: dict[str, list[Field]] = {heading: [] for heading in (*HEADINGS, LAST_HEADING)}
    for name, info in NodeEntry.model_fields.items():
        heading = next((heading for heading, names in HEADINGS.items() if name in names), LAST_HEADING)
        found[heading].append(_field(name, info))
    return found


def values_of(entry: NodeEntry) -> dict[str, Any]:
    """What an entry says, by key; what is absent is left out."""
    return entry.model_dump(exclude_defaults=True)


def _field(name: str, info: FieldInfo) -> Field:
    described, kind = str(info.description), str(info.annotation)
    absent = _ABSENT.search(described)
    is_list = "list" in kind
    return Field(
        name,
        described + (" Several are divided by commas." if is_list else ""),
        absent.group(1) if absent is not None else _REQUIRED.get(name, "none"),
        info.is_required(),
        is_list,
        re.search(r"\bint\b", kind) is not None,
    )
