"""What a look at a run file would execute and nobody has allowed yet: its recipe, what the recipe may be made
to import, or a Python it names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.launch.trust import TrustError, is_trusted


class CodeFolder(NamedTuple):
    """A folder whose content decides what is executed when a recipe file is."""

    folder: Path
    why: str
    """A clause that goes on with the folder."""


def code_folders(config: RunConfig, files: Sequence[Path] = ()) -> Iterator[CodeFolder]:
    """Where what takes effect in a process that runs the recipe file of `config` comes from.

    The recipe's own folder; the one that ranks start in, as Python imports from it first; and those of the
    run files where they set variables, since some of these (PYTHONPATH, LD_PRELOAD) bring in other code. None
    for a built-in recipe, in whose process nothing of that takes effect, for a script or a module, which a
    preview does not run, and for a file that is not there.

    Args:
        config: its paths are absolute.
        files: what it was read from, `LoadedConfig.files`; none where the user's own code made it.
    """
    recipe = config.run.recipe
    if recipe is None or recipe in BUILTIN_RECIPES or not Path(recipe).is_file():
        return
    yield CodeFolder(Path(recipe).parent, f"{Path(recipe).name} is code, and its folder")
    start = Path(config.run.working_dir or Path.cwd())
    if start.is_dir():  # of one that is not there nothing can be imported
        yield CodeFolder(start, "the recipe starts in, and so may import from,")
    for file in files if config.run.env else ():
        if file.parent.is_dir():
            yield CodeFolder(
                file.parent, f"{file.name} sets variables, which can bring in code, and its folder"
            )


def untrusted(config: RunConfig, home: Path, files: Sequence[Path] = ()) -> Path | None:
    """The folder of code that a preview of `config` would run and may not; None where there is none.

    That is the first of `code_folders`, or that of the interpreter.

    Args:
        config: its paths are absolute.
        home: TORCHDECK_HOME, which says what is trusted.
        files: as for `code_folders`.
    """
    for part in code_folders(config, files):
        if not _is_trusted(part.folder, home):
            return part.folder
    return strange_interpreter(config.run.interpreter, home)


def strange_interpreter(path: str | None, home: Path) -> Path | None:
    """The folder of a Python that must not be asked for its versions yet; None where it may be.

    It may be where it runs Torchdeck, where the user's PATH leads to its folder, or where it is trusted. For
    one of a virtual environment it is the environment's folder: what is installed there runs with it.

    Args:
        path: absolute, or a name that is looked up on PATH.
        home: TORCHDECK_HOME.
    """
    if path is None or os.sep not in path or not Path(path).is_file():
        return None
    folder = Path(path).parent
    if folder in {Path(sys.executable).parent, *map(Path, os.get_exec_path())}:
        return None
    if (folder.parent / "pyvenv.cfg").is_file():
        folder = folder.parent
    return None if _is_trusted(folder, home) else folder


def _is_trusted(folder: Path, home: Path) -> bool:
    try:
        return is_trusted(folder, home)
    except TrustError:
        return False
