"""Reads the JSON files next to a batch plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.data.batch_plan.errors import BatchPlanError
from torchdeck.data.batch_plan.meta import parsed_json

LARGEST = 512 << 20
"""Size limit in bytes; the file may hold names and token counts of millions of samples."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in the file `path`.

    Raises:
        BatchPlanError: it is not JSON, or not an object.
        OSError: it cannot be read.
    """
    try:
        value = parsed_json(read_bounded(path, LARGEST), LARGEST)
    except ValueError as error:
        raise BatchPlanError(f"{path} is cut short or damaged: {error}") from error
    if not isinstance(value, dict):
        raise BatchPlanError(f"{path} must hold an object, not {type(value).__name__}")
    return value


def read_document(path: Path, form: str, version: int, otherwise: str) -> dict[str, Any]:
    """Return the object in the file `path`, which must declare the format `form` and the given `version`.

    Raises:
        BatchPlanError: it does not, or is not an object; `otherwise` names what a file of another format is
            not.
        OSError: it cannot be read.
    """
    value = read_object(path)
    if value.get("format") != form:
        raise BatchPlanError(f"{path} {otherwise}")
    if value.get("v") != version:
        raise BatchPlanError(f"{path} has version {value.get('v')!r}; this Torchdeck reads version {version}")
    return value
