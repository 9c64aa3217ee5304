"""Whether a checkpoint that a program wrote can be read whole. Nothing is unpickled."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.trainers.checkpoints.checkpoint_search import look_at
from torchdeck.trainers.checkpoints.files import file_problem
from torchdeck.trainers.checkpoints.pickled_step import DAMAGED

_ARCHIVES = (".pt", ".pth", ".ckpt", ".bin")
_JSON_LIMIT = 32 << 20
"""Bytes of a JSON file that is parsed; a longer one is not looked at."""


def problems_of(path: Path) -> list[str]:
    """Read every byte that has a checksum or a format of its own; return what is wrong, a line each.

    Torch's files are zip archives with a checksum of each tensor; safetensors have sizes only.
    """
    found = look_at(path)
    if found is None:
        return [f"{path} does not exist" if not path.exists() else f"{path.name} is no longer a checkpoint"]
    problems = [found.incomplete] if found.incomplete else []
    files = [path]
    if path.is_dir():
        files = sorted(Path(where, name) for where, _, names in os.walk(path) for name in names)
    for file in files:
        problem = _problem(file)
        if problem:
            problems.append(f"{file.relative_to(path.parent)}: {problem}")
    return problems


def _problem(file: Path) -> str:
    if file.name.endswith(".safetensors"):
        return file_problem(file)
    if file.name.endswith(_ARCHIVES):
        return file_problem(file) or _archive_problem(file)
    if file.name.endswith(".json"):
        return _json_problem(file)
    return ""


def _archive_problem(file: Path) -> str:
    try:
        with open_regular(file) as opened:
            if not zipfile.is_zipfile(opened):
                return ""  # an older format of torch, which has no checksums
            with zipfile.ZipFile(opened) as archive:
                damaged = archive.testzip()
    except UnreadableFileError as error:
        return f"it {error.why}"
    except DAMAGED as error:
        return f"it cannot be read: {str(error) or type(error).__name__}"
    return "" if damaged is None else f"{damaged} differs from its checksum"


def _json_problem(file: Path) -> str:
    try:
        with open_regular(file) as opened:
            if os.fstat(opened.fileno()).st_size > _JSON_LIMIT:
                return ""
            content = opened.read(_JSON_LIMIT)
        # twice the values that the limit allows: those of a tokenizer are short
        parse_json(content, limit=2 * _JSON_LIMIT, python_numbers=True)
    except UnreadableFileError as error:
        return f"it {error.why}"
    except JsonError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return ""
