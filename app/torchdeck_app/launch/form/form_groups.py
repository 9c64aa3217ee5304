"""Groups of the form: keys, their order and their headings."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.basic_settings import basic_settings
from torchdeck.config.keys import RECIPE_TABLES, Key, all_keys
from torchdeck.config.schema import BUILTIN_RECIPES

BASIC = "basic"
"""Group of the settings that most runs need; all others are under `MORE`."""
MORE = "more"
PROGRAM = "run"
"""Group that also shows keys outside of any table."""
TITLES = {BASIC: "Basics", PROGRAM: "Program", "launch": "Supervision"}
ESSENTIAL = {
    PROGRAM: ("environment", "working_dir"),
    "model": ("heads", "rank", "vocabulary"),
    "data": ("tokens", "heldout", "workers"),
    "training": ("accumulation", "optimizer", "schedule"),
    "distributed": ("backend",),
    "cluster": ("nodes",),
    "estimate": ("parameters", "config", "layers"),
    "checkpoint": ("every", "every_epochs", "keep_last"),
    "telemetry": ("every", "stats_every"),
    "limits": ("memory", "max_hours"),
    "launch": ("max_restarts", "on_hang"),
    "sweep": ("over", "metric"),
    "alerts": ("on",),
    "slurm": ("partition", "time"),
}
"""Keys whose values are shown next to a group's title."""
_HEADINGS = {
    "ddp": "DDP", "fsdp": "FSDP", "hsdp": "HSDP", "deepspeed": "DeepSpeed", "rendezvous": "Rendezvous",
    "schedule": "Learning rate",
}  # fmt: skip


def title_of(group: str) -> str:
    """Return its heading."""
    return TITLES.get(group, group.capitalize())


def heading_of(key: Key) -> str:
    """Return the heading of a field within its group; empty if none."""
    if key.group is not None:
        return _HEADINGS.get(key.group, key.group.capitalize())
    inner = key.path[1] if len(key.path) > 2 else ""
    return _HEADINGS.get(inner, inner.capitalize())


def keys_by_group(recipe: str | None, kind: str = "recipe") -> dict[str, list[Key]]:
    """Return the keys with a field: the basic ones in their order, others in schema order by heading.

    Args:
        recipe: recipe of the run; None if it has none.
        kind: what is run: `recipe`, `script` or `module`.
    """
    fields = list(_fields(recipe))
    basic = basic_settings(kind, fields)
    groups: dict[str, list[Key]] = {PROGRAM: []}
    for key in fields:
        if key not in basic:
            groups.setdefault(PROGRAM if len(key.path) == 1 and not key.free else key.path[0], []).append(key)
    for keys in groups.values():
        headings = list(dict.fromkeys(map(heading_of, keys)))
        keys.sort(key=lambda key: headings.index(heading_of(key)))
    groups[PROGRAM].sort(key=lambda key: key.path[0] != PROGRAM)
    return {BASIC: basic, **groups}


def _fields(recipe: str | None) -> Iterator[Key]:
    builtin = recipe in BUILTIN_RECIPES
    keys = all_keys(recipe)
    for key in keys.values():
        inside_many = any(
            keys[key.path[:length]].repeated
            for length in range(1, len(key.path))
            if key.path[:length] in keys
        )
        foreign = bool(key.recipes) and not builtin
        free_of_recipe = key.path in RECIPE_TABLES and builtin
        table = key.section is not None and not key.repeated
        if not (inside_many or foreign or free_of_recipe or table):
            yield key


def keys_of_many(table: Key) -> list[Key]:
    """Return the keys of each of the repeated tables of `table`."""
    return [key for key in all_keys().values() if key.path[:-1] == table.path]
