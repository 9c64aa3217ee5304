"""JSON as commands print it."""

from __future__ import annotations

import json
from typing import Any

from torchdeck.shown_text import shown_json


def json_text(value: Any, **options: Any) -> str:
    """`value` as JSON in UTF-8, in which what must not be shown on a terminal is escaped.

    Args:
        value: of plain values.
        options: of `json.dumps`.
    """
    return shown_json(json.dumps(value, **{"ensure_ascii": False, **options}))
