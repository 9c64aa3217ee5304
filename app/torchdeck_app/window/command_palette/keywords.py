"""What actions are found by besides their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LIKE: Mapping[str, str] = {
    "add": "new create",
    "attach": "follow connect reconnect",
    "cancel": "abort",
    "check": "test preflight verify",
    "clone": "copy duplicate",
    "colours": "theme mode appearance",
    "delete": "remove erase trash",
    "filter": "search find",
    "import": "ssh hosts",
    "launch": "start begin",
    "node": "ssh host machine server computer",
    "nodes": "ssh hosts machines servers computers gpus",
    "resume": "continue restart",
    "runs": "history jobs training",
    "settings": "preferences options configuration",
    "shortcuts": "keys help",
    "stop": "cancel end abort kill",
    "tags": "label comment",
}
"""Other words for those that stand in names."""
_WORD = re.compile(r"[^\W_]{3,}")
_TELLING = 4
"""Letters of a word in a tooltip that says something: shorter ones stand in all."""


def keywords(text: str, tip: str) -> frozenset[str]:
    """Words in lower case that find an action, those of its name aside.

    Args:
        text: its name.
        tip: what its tooltip says.
    """
    named = _WORD.findall(text.lower())
    like = (word for name in named for word in _LIKE.get(name, "").split())
    said = (word for word in _WORD.findall(tip.lower()) if len(word) >= _TELLING)
    return frozenset({*like, *said}.difference(named))
