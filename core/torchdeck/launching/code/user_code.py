"""The user's code that a run executes: its entry in the plan, and what is copied for each run."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.launching.code.digests import Digests
from torchdeck.launching.code.ignore import RulesError
from torchdeck.launching.code.scan import MAX_BYTES, MAX_FILES, Found, scan
from torchdeck.plan.code_paths import IGNORE_FILE
from torchdeck.quantities import size

SHOWN = 4
"""Maximum number of names in a sentence."""
RESULTS_SHOWN = 20
"""Results of one folder that are listed by name."""


def read_user_code(
    config: RunConfig,
    working_dir: Path,
    home: Path,
    *,
    digests: Callable[[Path, Path], Digests] = Digests,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> tuple[CodeTree | None, tuple[str, ...]]:
    """Return everything copied for a run: the working directory, or the folder of a script or recipe
    elsewhere.

    Excluded are files matched by .gitignore and .torchdeckignore, installed packages and caches, results of
    trainings, checkpoints and Torchdeck homes; keys and passwords unless .torchdeckignore names the file.
    Links are copied as links.

    Args:
        config: the requested configuration; sync is not none.
        working_dir: where ranks start.
        home: TORCHDECK_HOME; it holds the cached hashes of large trees.
        digests: factory of the digests for a home and a folder.
        max_files: no copy is made above this number of files
        max_bytes: or of bytes.

    Returns:
        The tree, and warnings for the user. The tree is None if it is too large, or rules cannot be used.
    """
    if config.run.recipe in BUILTIN_RECIPES:
        return CodeTree(), ()
    main = main_file(config)
    base = _base(working_dir, main)
    without = [home] if config.checkpoint.directory is None else [home, Path(config.checkpoint.directory)]
    try:
        found = scan(base, without, always=main)
    except RulesError as error:
        return None, (f"{error}. So runs use your files in place, without a copy",)
    too_much = _too_much(base, found, max_files, max_bytes)
    if too_much:
        return None, (too_much,)
    contents = _read(found, digests(home, base))
    left_out = {
        **dict.fromkeys(found.homes, "a home of Torchdeck"),
        **_results(found.results),
        **dict.fromkeys(found.secret, "its name is typical of credentials"),
        **{name: f"holds {what}" for name, what in contents.secret.items()},
    }
    tree = CodeTree(
        dict(sorted(contents.files.items())),
        str(base),
        contents.size,
        left_out=dict(sorted(left_out.items())),
        knowingly=tuple(file.name for file in found.files if file.knowingly),
    )
    return tree, tuple(_sentences(found, contents.secret))


def _results(names: Sequence[str]) -> dict[str, str]:
    """Return results with the reason why they are not copied; many in one folder as one entry."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(posixpath.dirname(name), []).append(name)
    found = {}
    for folder, inside in by_folder.items():
        if len(inside) <= RESULTS_SHOWN:
            found.update(dict.fromkeys(inside, "a result of training"))
        else:
            found[f"{folder or posixpath.curdir}/"] = f"{len(inside):,} results of training"
    return found


class _Contents(NamedTuple):
    files: dict[str, str]
    """Name → its entry in the plan."""
    secret: dict[str, str]
    """Name → kind of credential it holds."""
    size: int


def _read(found: Found, hashes: Digests) -> _Contents:
    """Read the files to copy, by content; unreadable ones are added to `found`."""
    files = {name: f"{LINK}{target}" for name, target in found.links.items()}
    secret: dict[str, str] = {}
    copied = 0
    for file in found.files:
        digest = hashes.known(file.name, file.stat) or hashes.read(file.name, file.path)
        if digest is None:
            found.unreadable.append(file.name)
        elif digest.secret and not file.knowingly:
            secret[file.name] = digest.secret
        else:
            files[file.name] = digest.hash + (EXECUTABLE if file.stat.st_mode & 0o100 else "")
            copied += file.stat.st_size
    hashes.save()
    return _Contents(files, secret, copied)


def main_file(config: RunConfig) -> Path | None:
    """Return the script or recipe file; None for a module, a built-in recipe, or a program found on PATH."""
    name = config.run.script or config.run.recipe
    if name is None or name in BUILTIN_RECIPES or os.sep not in name:
        return None
    return Path(os.path.normpath(name))


def _base(working_dir: Path, main: Path | None) -> Path:
    """Return the folder to copy.

    If the script is elsewhere, the working directory may be any folder, such as the home folder, which is not
    code.
    """
    here = Path(os.path.normpath(working_dir.absolute()))
    return here if main is None or main.is_relative_to(here) else main.parent


def _too_much(base: Path, found: Found, max_files: int, max_bytes: int) -> str:
    """Return an error sentence if the tree exceeds what is copied for runs."""
    if found.whole and len(found.files) <= max_files and found.size <= max_bytes:
        return ""
    least = "" if found.whole else "more than "
    biggest = sorted(found.files, key=lambda file: -file.stat.st_size)[:SHOWN]
    names = ", ".join(f"{file.name} ({size(file.stat.st_size)})" for file in biggest)
    return (
        f"{base} has {least}{len(found.files):,} files of {size(found.size)}, and a run gets its own copy of "
        f"at most {max_files:,} files and {size(max_bytes)}. So it uses your files in place, and "
        f"changes of them reach its next attempt. The biggest are {names}: name in {IGNORE_FILE} what no run "
        'needs, or set run.sync = "none"'
    )


def _sentences(found: Found, secret: Mapping[str, str]) -> Iterator[str]:
    if found.leading_out:
        yield (
            f"{_listed(found.leading_out)}: links to targets outside the working directory; the run's copy "
            "has the links, not the targets"
        )
    if secret:
        held = [f"{name} holds {what}" for name, what in secret.items()]
        first = min(secret)
        yield (
            f"{_listed(held)}, and is not copied: remove it from the file, or write "
            f"!{first} into {IGNORE_FILE} to copy it to the nodes anyway"
        )
    if found.homes:
        yield f"{_listed(found.homes)}: a home of Torchdeck, which is not copied"
    if found.unreadable:
        yield f"{_listed(found.unreadable)} cannot be read, and is not copied"


def _listed(names: list[str]) -> str:
    names = sorted(names)
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
