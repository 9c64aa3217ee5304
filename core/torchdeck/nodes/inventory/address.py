"""An address as ssh takes it, `[USER@]HOST[:PORT]`, split into the keys of a node inventory, or as a jump
host.
"""

from __future__ import annotations

import re
from typing import Any

from torchdeck.config.values.node_names import host_fault, user_fault

RIGHT_HOP = "[USER@]HOST[:PORT], or the name of a node"
_PARTS = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s:/-][^@\s:/]*)@)?"
    r"(?:\[(?P<bracketed>[^\]\s@/]+)\]|(?P<host>[^\s:@\[\]/]+))(?::(?P<port>[0-9]{1,5}))?/?"
)
_HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?(?P<host>\[[^\]\s]+\]|[^\s:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?/?"
)


def taken_apart(text: str) -> dict[str, Any]:
    """Return `address`, and `user` and `port` if the text contains them. A plain host, an IPv6 address or
    invalid text stays the address unchanged.
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


def jump_parts(text: str) -> tuple[str, str, str] | None:
    """Return user, host and port of a jump host, empty if the text does not contain them; None if it is not a
    jump host.
    """
    match = _HOP.fullmatch(text)
    if match is None:
        return None
    return match["user"] or "", match["host"].strip("[]"), match["port"] or ""


def hop_fault(text: str) -> str:
    """Return why `text` is neither a jump host nor a name of a node; empty if it may be one."""
    parts = jump_parts(text)
    if parts is None:
        return f"expected {RIGHT_HOP}"
    user, host, _ = parts
    return (user_fault(user) if user else "") or host_fault(host)
