"""Loader of run files: the files they extend, `--set`, every problem at once, and paths made absolute."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.keys import Key, all_keys
from torchdeck.config.layers import Layer, Merged, Origin
from torchdeck.config.overrides import lay_overrides
from torchdeck.config.problems import ConfigError, Problem
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.sources import Source, read_chain
from torchdeck.config.validate import validate

UNNAMED = "run.toml"
"""Name of a run file that has none yet."""


@dataclass(frozen=True)
class LoadedConfig:
    """A valid run file."""

    config: RunConfig
    """Complete config: paths are absolute, a built-in recipe's options are all present."""
    path: Path
    """Absolute path of the run file."""
    files: tuple[Path, ...]
    """The run file and the files it extends, the most basic first; absolute."""
    text: str
    """Text of the run file, byte for byte as it was read."""
    written: Mapping[str, Any]
    """Values of the files and `--set` together, without defaults, as written."""
    locate: Callable[[str], tuple[str, int | None]]
    """File and line of a dotted key, or of the table around it: for problems found later."""


@dataclass(frozen=True)
class Draft:
    """A run file and those it extends, read and merged, not yet checked."""

    sources: tuple[Source, ...]
    """The most basic first, the run file last."""
    merged: Merged
    problems: tuple[Problem, ...]
    """Problems of the overrides themselves."""

    def config(self) -> LoadedConfig:
        """Return the valid config.

        Raises:
            ConfigError: with every problem, if there is any.
        """
        top, merged = self.sources[-1], self.merged
        config = _finished(merged, self.problems, top.path.stem, top.path.parent)
        files = tuple(source.path for source in self.sources)
        return LoadedConfig(config, top.path, files, top.text, merged.table, merged.place)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Read a run file.

    Args:
        path: the file.
        overrides: texts such as `training.lr=3e-4`, later ones winning; a relative path in one is relative to
            the current folder, one in a file to that file's folder.

    Raises:
        ConfigError: with every problem, if there is any.
    """
    return draft_config(path, overrides).config()


def load_config_text(
    text: str, path: str | Path, overrides: Sequence[str] = (), folder: Path | None = None
) -> LoadedConfig:
    """Load the config of a run file with this content: for one that is being edited and is not saved yet.

    Args:
        text: the content.
        path: the file it is meant for, which need not exist; or a folder if it has no name yet.
        overrides: as for `load_config`.
        folder: relative paths in overrides are relative to it; None: to the current folder.

    Raises:
        ConfigError: with every problem, if there is any; lines are those of `text`.
    """
    return draft_config(path, overrides, text=text, folder=folder).config()


def draft_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    text: str | None = None,
    name: str | None = None,
    folder: Path | None = None,
) -> Draft:
    """Read a run file and those it extends, without checking their contents yet.

    Args:
        path: the file; or a folder, if `text` has no name yet.
        overrides: as for `load_config`.
        text: used instead of the file's content, so that the file need not exist.
        name: name of the file in problems; its path as it is given.
        folder: as for `load_config_text`.

    Raises:
        ConfigError: a file cannot be read, or is not TOML.
    """
    at = Path(path)
    if text is not None and at.is_dir():
        at /= UNNAMED
    sources = read_chain(at, text, name)
    merged = Merged(Origin(sources[-1].name, 1, str(sources[-1].path.parent)))
    for source in sources:
        merged.lay(source.layer())
    problems = lay_overrides(merged, overrides, folder or Path.cwd())
    return Draft(tuple(sources), merged, tuple(problems))


def config_from_dict(
    table: Mapping[str, Any], base_dir: str | Path, overrides: Sequence[str] = (), *, name: str = "run"
) -> RunConfig:
    """Return the config of a table in a run file's shape.

    Args:
        table: as tomllib would read it from a file; `extends` is for files only.
        base_dir: the folder to which relative paths in it are relative, and the ranks' default working
            directory.
        overrides: as for `load_config`.
        name: the run's name if the table gives none.

    Raises:
        ConfigError: with every problem, if there is any.
    """
    origin = Origin("", None, str(Path(base_dir).absolute()))
    merged = Merged(origin)
    merged.lay(Layer({key: value for key, value in table.items() if key != "extends"}, lambda _path: origin))
    problems = lay_overrides(merged, overrides, Path.cwd())
    if "extends" in table:
        problems.append(Problem("extends", "", None, "only a file can extend another", "no extends"))
    return _finished(merged, problems, name, Path(origin.folder))


def _finished(merged: Merged, problems: Sequence[Problem], name: str, folder: Path) -> RunConfig:
    try:
        config = validate(merged)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems:
        raise ConfigError(problems)
    return resolved(config, merged, name, str(folder))


# Last stage of reading a run file: absolute paths, nodes by name, defaults from the file's location.

WORDS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("run", "recipe"): frozenset(BUILTIN_RECIPES),
    ("checkpoint", "resume"): frozenset({"auto", "never"}),
    ("data", "source"): frozenset({"stdlib"}),
}
"""Values of path keys that are keywords, not paths."""


def resolved(config: RunConfig, merged: Merged, name: str, folder: str) -> RunConfig:
    """Return the config with absolute paths and every node by name.

    Relative paths are relative to the folder of the file that contains them.

    Args:
        config: valid.
        merged: the origin of its values.
        name: the run's name if none is set.
        folder: the working directory of the ranks if none is set.
    """
    table: dict[str, Any] = config.model_dump()
    for path, key in all_keys(config.run.recipe).items():
        if not key.is_path or path[0] not in table or not _has(config, key):
            continue
        section = table[path[0]]
        value = section.get(path[1])
        if isinstance(value, str) and value not in WORDS.get(path, ()):
            bare_command = path == ("run", "interpreter") and "/" not in value
            section[path[1]] = value if bare_command else absolute(value, merged.origin(path).folder)
    if table["run"]["working_dir"] is None:
        table["run"]["working_dir"] = folder
    if not isinstance(config.distributed.nodes, str):  # the minimum of a range must not be lost
        named = merged.has(("distributed", "nodes"))
        table["distributed"]["nodes"] = node_names(config, named=named)
    if not merged.has(("name",)):
        table["name"] = name_from(name)
    return RunConfig.model_validate(table)


def _has(config: RunConfig, key: Key) -> bool:
    """Return whether the run's recipe has the option; a user's own recipe has those that all have."""
    recipe = config.run.recipe
    if not key.recipes or recipe in key.recipes:
        return True
    return recipe is not None and recipe not in BUILTIN_RECIPES and {*key.recipes} == {*BUILTIN_RECIPES}


def absolute(path: str, folder: str) -> str:
    """Return `path` relative to `folder` as absolute, without `~` and `..`; symbolic links are not
    resolved.
    """
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118 (keeps a NUL or "//" from raising)


def name_from(text: str) -> str:
    """Derive a run's name from a file's: characters not allowed in a name are replaced by a dash."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", text).strip()[:100] or "run"
