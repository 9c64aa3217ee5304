"""Checks for enough text for a recipe that predicts it: every split needs one sample and the next token."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.bounded_file import open_regular
from torchdeck.plan.check import Check, failed, ok
from torchdeck.recipes.options.text import TextData

MAX_ENTRIES = 20_000
"""Names checked in search of enough text; after that the ranks find out."""
_SNIFFED = 4096


def check_data(config: RunConfig, node: str) -> Iterator[Check]:
    """Check the [data] table of a built-in recipe that reads text; yield nothing for other runs."""
    sections = BUILTIN_RECIPES.get(config.run.recipe or "")
    if sections is None or sections[1] is not TextData:
        return
    yield _text(config, node) if config.data["tokens"] is None else _tokens(Path(config.data["tokens"]), node)


def bytes_needed(context: int, heldout: float) -> int:
    """Return the smallest text whose splits are all longer than a sample; an empty validation split does not
    count.
    """
    part = context + 1
    needed = math.ceil(part / (1 - heldout))
    return max(needed, math.ceil(part / heldout)) if heldout > 0 else needed


def _tokens(path: Path, node: str) -> Check:
    """Check whether there is a file of tokens; ranks, which have numpy, check its content."""
    if not path.is_file():
        return failed(
            "data", node, f"data.tokens {path} is not a file", "name a file of tokens, or no tokens"
        )
    if not os.access(path, os.R_OK):
        return failed(
            "data", node, f"data.tokens {path} cannot be read: permission denied", "change its mode"
        )
    return ok("data", node, f"tokens in {path}")


def _text(config: RunConfig, node: str) -> Check:
    source, context = str(config.data["source"]), int(config.model["context"])
    limit = config.data.get("max_bytes")
    needed = bytes_needed(context, float(config.data["heldout"]))
    if limit is not None and int(limit) < needed:
        return _short(f"data.max_bytes leaves {int(limit)} bytes", needed, context, node)
    if source == "stdlib":
        return ok("data", node, "text of the Python standard library")
    path = Path(source)
    if not path.exists():
        return failed(
            "data", node, f"data.source {path} does not exist", 'name a file or folder, or "stdlib"'
        )
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return failed(
            "data", node, f"data.source {path} cannot be read: permission denied", "change its mode"
        )
    found, whole = _text_bytes(path, needed)
    if found < needed and whole:
        if found == 0:
            return failed(
                "data", node, f"data.source {path} holds no text", "name a file or folder with text in it"
            )
        return _short(f"data.source {path} has {found} bytes", needed, context, node)
    return ok("data", node, f"text in {path}")


def _short(what: str, needed: int, context: int, node: str) -> Check:
    return failed(
        "data",
        node,
        f"{what}, too few for samples of {context} bytes in training and validation data",
        f"give at least {needed} bytes of text, or lower model.context",
    )


def _text_bytes(path: Path, enough: int) -> tuple[int, bool]:
    """Return the bytes of text in a file or folder, and whether the scan was complete; stops when there are
    enough.
    """
    found = 0
    for count, file in enumerate(_files(path)):
        if found >= enough or count >= MAX_ENTRIES:
            return found, False
        found += _size_of_text(file)
    return found, True


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, names, files in os.walk(path):
        names[:] = [name for name in names if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if not name.startswith("."))


def _size_of_text(path: Path) -> int:
    """Return the bytes of a file; 0 for a binary one, detected by a NUL at its start, and for an unreadable
    one.
    """
    try:
        with open_regular(path) as file:
            return 0 if b"\0" in file.read(_SNIFFED) else path.stat().st_size
    except OSError:
        return 0
