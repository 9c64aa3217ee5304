"""An address as ssh takes it, `[USER@]HOST[:PORT]`, as the keys of a node book."""

from __future__ import annotations

import re
from typing import Any

_PARTS = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s:/-][^@\s:/]*)@)?"
    r"(?:\[(?P<bracketed>[^\]\s@/]+)\]|(?P<host>[^\s:@\[\]/]+))(?::(?P<port>[0-9]{1,5}))?/?"
)


def taken_apart(text: str) -> dict[str, Any]:
    """`address`, and `user` and `port` where the text says them; a plain host, an IPv6 address or what is
    neither stays the address as it is.
    """
    match = _PARTS.fullmatch(text)
    if match is None:
        return {"address": text}
    found: dict[str, Any] = {"address": match["bracketed"] or match["host"]}
    if match["user"]:
        found["user"] = match["user"]
    if match["port"]:
        found["port"] = int(match["port"])
    return found
