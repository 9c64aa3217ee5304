"""A plan as plain values, and their SHA-256. Standard library only, Python 3.10: nodes check it too."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

_UNSEEN = frozenset({"name", "warnings", "prediction", "absent"})
_UNSEEN_CODE = frozenset({"uncopied", "left_out", "knowingly"})
"""Keys that change nothing in what is executed."""
_ATOMS = frozenset({str, int, float, bool, type(None)})


def fingerprint_of(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 over `to_json` of a plan, except for what no process sees."""
    executed = {name: part for name, part in value.items() if name not in _UNSEEN}
    for part in ("nodes", "spares"):
        if any("environment" in node for node in value.get(part, ())):
            executed[part] = list(map(_without_state, value[part]))
    if "code" in value:
        executed["code"] = {name: part for name, part in value["code"].items() if name not in _UNSEEN_CODE}
    if "smaller" in value:
        sizes = value["smaller"]
        executed["smaller"] = [{k: part for k, part in size.items() if k not in _UNSEEN} for size in sizes]
    text = json.dumps(executed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _without_state(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node without whether its environment was there already."""
    if "environment" not in node:
        return dict(node)
    environment = {name: part for name, part in node["environment"].items() if name != "is_made"}
    return {**node, "environment": environment}


def plain(value: Any) -> Any:
    """Return dataclasses and mappings as dicts, sequences as lists."""
    # dataclasses.asdict would copy everything deeply, for each of thousands of nodes
    if type(value) in _ATOMS:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
