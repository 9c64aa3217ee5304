"""The user's code that a run executes: what stands in its plan, and what each run gets a copy of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.launch.code.digests import Digests
from torchdeck.launch.code.ignore import OWN
from torchdeck.launch.code.scan import MAX_BYTES, MAX_FILES, Found, scan
from torchdeck.plan.launch_plan import CodeTree
from torchdeck.quantities import size

SHOWN = 4
"""Names in a sentence."""


def read_user_code(
    config: RunConfig,
    working_dir: Path,
    home: Path,
    *,
    digests: Callable[[Path, Path], Digests] = Digests,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> tuple[CodeTree | None, tuple[str, ...]]:
    """All that a run gets a copy of: the working directory, or the folder of a script or recipe elsewhere.

    Left behind is what .gitignore and .torchdeckignore say, installed packages and caches, checkpoints and
    TORCHDECK_HOME; keys and passwords always. Links are copied as links.

    Args:
        config: what is asked for; sync is not none.
        working_dir: where ranks start.
        home: TORCHDECK_HOME; hashes of large trees are kept in it.
        digests: those of a home and a folder.
        max_files: with more than so many files
        max_bytes: or bytes no copy is made.

    Returns:
        The tree, and what a person should know of it. The tree is None where it is too large.
    """
    if config.run.recipe in BUILTIN_RECIPES:
        return CodeTree(), ()
    main = main_file(config)
    base = _base(working_dir, main)
    without = [home] if config.checkpoint.directory is None else [home, Path(config.checkpoint.directory)]
    found = scan(base, without, always=main)
    too_much = _too_much(base, found, max_files, max_bytes)
    if too_much:
        return None, (too_much,)
    hashes = digests(home, base)
    files: dict[str, str] = {name: f"{LINK}{target}" for name, target in found.links.items()}
    copied = 0
    for file in found.files:
        digest = hashes.known(file.name, file.stat) or hashes.read(file.name, file.path)
        if digest is None:
            found.unreadable.append(file.name)
        elif digest.is_key:
            found.secret.append(file.name)
        else:
            files[file.name] = digest.hash + (EXECUTABLE if file.stat.st_mode & 0o100 else "")
            copied += file.stat.st_size
    hashes.save()
    tree = CodeTree(dict(sorted(files.items())), str(base), copied)
    return tree, tuple(_sentences(found))


def main_file(config: RunConfig) -> Path | None:
    """The script or recipe file; None for a module, a built-in recipe, and what is looked up on PATH."""
    name = config.run.script or config.run.recipe
    if name is None or name in BUILTIN_RECIPES or os.sep not in name:
        return None
    return Path(os.path.normpath(name))


def _base(working_dir: Path, main: Path | None) -> Path:
    """The folder that is copied.

    Who names a script that lies elsewhere may stand in any folder, such as their home, which is no code.
    """
    here = Path(os.path.normpath(working_dir.absolute()))
    return here if main is None or main.is_relative_to(here) else main.parent


def _too_much(base: Path, found: Found, max_files: int, max_bytes: int) -> str:
    """A sentence where it is more than runs get a copy of."""
    if found.whole and len(found.files) <= max_files and found.size <= max_bytes:
        return ""
    least = "" if found.whole else "more than "
    biggest = sorted(found.files, key=lambda file: -file.stat.st_size)[:SHOWN]
    names = ", ".join(f"{file.name} ({size(file.stat.st_size)})" for file in biggest)
    return (
        f"{base} has {least}{len(found.files):,} files of {size(found.size)}, and a run gets its own copy of "
        f"at most {max_files:,} files and {size(max_bytes)}. So it executes your files where they lie, and "
        f"changes of them reach its next attempt. The biggest are {names}: name in {OWN} what no run "
        'needs, or set run.sync = "none"'
    )


def _sentences(found: Found) -> Iterator[str]:
    if found.leading_out:
        yield (
            f"{_listed(found.leading_out)}: links that lead out of the working directory; a run gets copies "
            "of them, and not of what they lead to"
        )
    keys = [name for name in found.secret if name.endswith(".py")]
    if keys:
        yield f"{_listed(keys)} holds a private key, and no run gets a copy of it"
    if found.unreadable:
        yield f"{_listed(found.unreadable)} cannot be read, and no run gets a copy of it"


def _listed(names: list[str]) -> str:
    names = sorted(names)
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
