"""The JSON files beside a batch plan, as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.data.batch_plan.errors import BatchPlanError
from torchdeck.data.batch_plan.meta import parsed_json

LARGEST = 512 << 20
"""Bytes; names and token counts of millions of samples may be in it."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in the file `path`.

    Raises:
        BatchPlanError: it is no JSON, or no object.
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
    """The object in the file `path`, which says that it is a `form` of that `version`.

    Raises:
        BatchPlanError: it is not, or is none; `otherwise` says what a file of another form is not.
        OSError: it cannot be read.
    """
    value = read_object(path)
    if value.get("format") != form:
        raise BatchPlanError(f"{path} {otherwise}")
    if value.get("v") != version:
        raise BatchPlanError(f"{path} has version {value.get('v')!r}; this Torchdeck reads version {version}")
    return value
