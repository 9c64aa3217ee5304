"""Hashes of the user's code that a run will execute: part of the plan's fingerprint.

A run gets its own copy of everything around its script (`launch.code`). Without a copy (too large, or not
wanted), and for the dependencies of a model's profile, only Python files are hashed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.code.digests import Digests
from torchdeck.launching.code.user_code import read_user_code

MAX_FILES = 2_000
MAX_BYTES = 64 * 2**20
MAX_ENTRIES = 20_000
"""Names checked in search of Python files: about 20 ms."""
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


def code_of_run(
    config: RunConfig,
    working_dir: Path,
    home: Path,
    *,
    digests: Callable[[Path, Path], Digests] = Digests,
) -> tuple[CodeTree, tuple[str, ...]]:
    """Return the tree in the plan: that of the run's copy, or else its Python files; and warnings.

    See `read_user_code` and `read_code_tree`.
    """
    if config.run.sync == "none":
        tree, warnings = read_code_tree(config, working_dir)
        return replace(tree, uncopied='run.sync is "none"'), warnings
    copied, warnings = read_user_code(config, working_dir, home, digests=digests)
    if copied is None:
        tree, _ = read_code_tree(config, working_dir)
        return replace(tree, uncopied=" ".join(warnings)), warnings
    return (copied if copied.files or copied.left_out else CodeTree()), warnings


def read_code_tree(
    config: RunConfig,
    working_dir: Path,
    *,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> tuple[CodeTree, tuple[str, ...]]:
    """Return hashes of the script or recipe file and of the Python files below the working directory.

    Excluded: hidden folders (including .git), virtual environments, node_modules, installed packages,
    unreadable files, and files reached only through links. A built-in recipe executes no user code.

    Args:
        config: names the script or recipe, if it is a file.
        working_dir: where ranks start.
        max_files: maximum number of files to hash,
        max_bytes: and of bytes.

    Returns:
        The tree (paths below the working directory are relative to it), and a warning if it is truncated.
    """
    if config.run.recipe in BUILTIN_RECIPES:
        return CodeTree(), ()  # no user code is executed
    main = config.run.script or config.run.recipe
    first = [Path(main)] if main is not None and os.sep in main else []
    found, whole = _python_files(working_dir)
    files: dict[str, str] = {}
    size = 0
    for path in (*first, *found):
        name = _text(path.relative_to(working_dir) if path.is_relative_to(working_dir) else path)
        if name in files:
            continue
        try:
            size += path.stat().st_size
            if len(files) >= max_files or size > max_bytes:
                whole = False
                break
            files[name] = hashlib.sha256(read_bounded(path, max_bytes)).hexdigest()
        except OSError:
            continue
    return CodeTree(files), () if whole else (_cut(working_dir, len(files)),)


def _text(path: Path) -> str:
    """Return a path as valid UTF-8: file names are bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _cut(folder: Path, count: int) -> str:
    return (
        f"{folder} holds more than is looked at: the plan's fingerprint covers {count} of its Python files; "
        "run.working_dir can name a smaller folder"
    )


def _python_files(folder: Path) -> tuple[list[Path], bool]:
    """Return Python files below `folder` in a fixed order (without linked folders), and whether the scan was
    complete.
    """
    found: list[Path] = []
    waiting = [folder]
    seen = 0
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                names = list(itertools.islice(entries, MAX_ENTRIES))
        except OSError:
            continue
        seen += len(names)
        if seen >= MAX_ENTRIES:
            return found, False
        names.sort(key=lambda entry: entry.name)
        found += [here / entry.name for entry in names if entry.name.endswith(".py") and entry.is_file()]
        folders = [entry.name for entry in names if entry.is_dir(follow_symlinks=False)]
        waiting += [here / name for name in reversed(folders) if not _is_skipped(here, name)]
    return found, True


def _is_skipped(parent: Path, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or (parent / name / "pyvenv.cfg").exists()
