"""Whether a checkpoint that a program wrote can be read whole. Nothing is unpickled."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.trainers.checkpoints.checkpoint_search import look_at
from torchdeck.trainers.checkpoints.files import file_problem
from torchdeck.trainers.checkpoints.pickled_step import DAMAGED

_ARCHIVES = (".pt", ".pth", ".ckpt", ".bin")
_JSON_LIMIT = 32 << 20
"""Bytes of a JSON file that is parsed; a longer one is not looked at."""


class Soundness(NamedTuple):
    """Result of reading a checkpoint."""

    problems: list[str]
    """Problems, a line each."""
    unchecked: int = 0
    """Files whose content may have changed unnoticed: they have no checksum."""


def soundness_of(path: Path) -> Soundness:
    """Read every byte that has a checksum, and every JSON file.

    Torch's archives have a checksum of each tensor. Safetensors have sizes only. Pickles, the files of
    torch.distributed.checkpoint and all others have neither.
    """
    found = look_at(path)
    if found is None:
        gone = not path.exists()
        return Soundness([f"{path} does not exist" if gone else f"{path.name} is no longer a checkpoint"])
    problems, unchecked = [found.incomplete] if found.incomplete else [], 0
    files = [path]
    if path.is_dir():
        files = sorted(Path(where, name) for where, _, names in os.walk(path) for name in names)
    for file in files:
        problem = _problem(file)
        if problem:
            problems.append(f"{file.relative_to(path.parent)}: {problem}")
        unchecked += problem is None
    return Soundness(problems, unchecked)


def _problem(file: Path) -> str | None:
    """Return what is wrong, else an empty text; None if its format has no checksum that would tell."""
    if file.name.endswith(".safetensors"):
        return file_problem(file) or None
    if file.name.endswith(_ARCHIVES):
        return file_problem(file) or _archive_problem(file)
    if file.name.endswith(".json"):
        return _json_problem(file)
    return None


def _archive_problem(file: Path) -> str | None:
    try:
        with open_regular(file) as opened:
            if not zipfile.is_zipfile(opened):
                return None  # an older format of torch, which has no checksums
            with zipfile.ZipFile(opened) as archive:
                damaged = archive.testzip()
    except UnreadableFileError as error:
        return f"it {error.why}"
    except DAMAGED as error:
        return f"it cannot be read: {str(error) or type(error).__name__}"
    return "" if damaged is None else f"{damaged} differs from its checksum"


def _json_problem(file: Path) -> str | None:
    try:
        with open_regular(file) as opened:
            if os.fstat(opened.fileno()).st_size > _JSON_LIMIT:
                return None
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
