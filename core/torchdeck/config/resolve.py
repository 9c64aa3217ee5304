"""Last stage of reading a run file: absolute paths, nodes by name, defaults from the file's location."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from torchdeck.config.chosen_nodes import node_names
from torchdeck.config.keys import all_keys
from torchdeck.config.layers import Merged
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig

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
        if not key.is_path or path[0] not in table or (key.recipes and config.run.recipe not in key.recipes):
            continue
        section = table[path[0]]
        value = section[path[1]]
        if value is not None and value not in WORDS.get(path, ()):
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


def absolute(path: str, folder: str) -> str:
    """Return `path` relative to `folder` as absolute, without `~` and `..`; symbolic links are not
    resolved.
    """
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118 (keeps a NUL or "//" from raising)


def name_from(text: str) -> str:
    """Derive a run's name from a file's: characters not allowed in a name are replaced by a dash."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", text).strip()[:100] or "run"
