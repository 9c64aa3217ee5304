"""The groups of the form: which keys, in which order, under which headings."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.keys import RECIPE_TABLES, Key, all_keys
from torchdeck.config.schema import BUILTIN_RECIPES

FIRST = "run"
"""The group in which keys outside any table are shown too."""
KINDS = ("recipe", "script", "module")
"""What can be run; one of them."""
EXCLUSIVE = (
    tuple(("run", kind) for kind in KINDS),
    (("training", "steps"), ("training", "epochs")),
)
"""Keys of which one is given: setting one resets the others."""
TITLES = {FIRST: "What to run", "telemetry": "Telemetry", "launch": "Supervision", "limits": "Limits"}
ESSENTIAL = {
    FIRST: ("recipe", "script", "module"),
    "model": ("layers", "width", "context"),
    "data": ("source", "tokens", "augmentation"),
    "training": ("steps", "epochs", "microbatch", "lr", "precision"),
    "distributed": ("strategy", "nproc"),
    "cluster": ("nodes",),
    "estimate": ("parameters", "config", "layers"),
    "checkpoint": ("every", "every_epochs", "keep_last"),
    "telemetry": ("every", "stats_every"),
    "limits": ("memory", "max_hours"),
    "launch": ("max_restarts", "on_hang"),
}
"""Keys whose values stand beside a group's title."""
OPEN = (FIRST, "training")
"""Groups that are open at first."""
_HEADINGS = {
    "ddp": "DDP", "fsdp": "FSDP", "hsdp": "HSDP", "deepspeed": "DeepSpeed", "rendezvous": "Rendezvous",
    "schedule": "Learning rate",
}  # fmt: skip


def title_of(group: str) -> str:
    """Its heading."""
    return TITLES.get(group, group.capitalize())


def label_of(key: Key) -> str:
    """A field's name for people: the key's own, so that it is found in the file, with blanks.

    A group that is one free table has `options`: its name is the heading already.
    """
    if key.free and len(key.path) == 1:
        return "options"
    return key.path[-1].replace("_", " ")


def heading_of(key: Key) -> str:
    """Under which heading of its group a field stands; empty for none."""
    if key.group is not None:
        return _HEADINGS.get(key.group, key.group.capitalize())
    inner = key.path[1] if len(key.path) > 2 else ""
    return _HEADINGS.get(inner, inner.capitalize())


def keys_by_group(recipe: str | None) -> dict[str, list[Key]]:
    """The keys that have a field in a run of `recipe`, in the schema's order; those of a heading together."""
    groups: dict[str, list[Key]] = {}
    for key in _fields(recipe):
        groups.setdefault(FIRST if len(key.path) == 1 and not key.free else key.path[0], []).append(key)
    for keys in groups.values():
        headings = list(dict.fromkeys(map(heading_of, keys)))
        keys.sort(key=lambda key: headings.index(heading_of(key)))
    first = groups.pop(FIRST)
    first.sort(key=lambda key: key.path[0] != FIRST)
    return {FIRST: first, **groups}


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
    """The keys of each of the tables that `table` may be there many times as."""
    return [key for key in all_keys().values() if key.path[:-1] == table.path]
