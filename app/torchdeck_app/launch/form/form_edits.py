"""Groups of keys, and edits of the form: each with a name for the undo history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.config.keys import RECIPE_TABLES, Key, all_keys
from torchdeck.config.problems import dotted, shown
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.config.toml.document import KeyPath
from torchdeck.config.toml.edit import (
    EditError,
    add_table,
    remove_table,
    remove_value,
    rename_key,
    set_value,
)

_NAMED = 30
"""Maximum characters of a value in the name of an edit."""


@dataclass(frozen=True)
class NamedEdit:
    """Change of the text; `change` raises EditError if it is not possible."""

    name: str
    change: Callable[[str], str]


def setting(path: KeyPath, value: Any, literal: str = "") -> NamedEdit:
    """Return an edit that sets a key; mutually exclusive keys are removed."""
    others = [other for group in EXCLUSIVE if path in group for other in group if other != path]

    def change(text: str) -> str:
        for other in others:
            text = remove_value(text, other)
        return set_value(text, path, value, literal)

    return NamedEdit(f"{dotted(path)} = {literal or shown(value, _NAMED)}", change)


def resetting(path: KeyPath) -> NamedEdit:
    """Return an edit that removes a key, or a table with its heading, so that the default applies."""

    def change(text: str) -> str:
        try:
            return remove_value(text, path)
        except EditError:
            return remove_table(text, path)

    return NamedEdit(f"reset {dotted(path)}", change)


def renaming(path: KeyPath, name: str) -> NamedEdit:
    """Return an edit that renames a key of a free table."""
    return NamedEdit(f"rename {dotted(path)} to {name}", lambda text: rename_key(text, path, name))


def adding(path: KeyPath, values: Mapping[str, Any]) -> NamedEdit:
    """Return an edit that adds one of several tables."""
    names = tuple(str(key) for key in path)
    return NamedEdit(f"add [[{dotted(path)}]]", lambda text: add_table(text, names, values))


def removing(path: KeyPath) -> NamedEdit:
    """Return an edit that removes one of several tables."""
    return NamedEdit(f"remove {dotted(path)}", lambda text: remove_table(text, path))


# Groups of the form: keys, their order and their headings.

FIRST = "run"
"""Group that also shows keys outside of any table."""
KINDS = ("recipe", "script", "module")
"""Kinds of what can be run; exactly one is used."""
EXCLUSIVE = (
    tuple(("run", kind) for kind in KINDS),
    (("training", "steps"), ("training", "epochs")),
)
"""Mutually exclusive keys: setting one resets the others."""
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
"""Keys whose values are shown next to a group's title."""
OPEN = (FIRST, "training")
"""Initially open groups."""
_HEADINGS = {
    "ddp": "DDP", "fsdp": "FSDP", "hsdp": "HSDP", "deepspeed": "DeepSpeed", "rendezvous": "Rendezvous",
    "schedule": "Learning rate",
}  # fmt: skip


_LABELS = {
    "args": "Arguments",
    "resume_args": "Resume arguments",
    "env": "Environment variables",
    "working_dir": "Working directory",
    "sync": "Copy code",
    "init_from": "Initial weights",
    "init_names": "Names of initial weights",
    "init_new": "Layers with new weights",
    "heldout": "Validation part",
    "microbatch": "Batch size per GPU",
    "accumulation": "Gradient accumulation",
    "batch_plan": "Batch plan",
    "lr": "Learning rate",
    "schedule": "Learning rate schedule",
    "min_lr_ratio": "Minimum learning rate ratio",
    "clip": "Gradient clipping",
    "precision": "Mixed precision",
    "ema": "Weight averaging (EMA)",
    "nproc": "Processes per node",
    "spare": "Spare nodes",
    "bucket_size_mb": "Bucket size (MB)",
    "comm_hook": "Communication hook",
    "powersgd_rank": "PowerSGD rank",
    "cpu_offload": "CPU offload",
    "min_params": "Minimum parameters",
    "param_dtype": "Parameter dtype",
    "zero_stage": "ZeRO stage",
    "gpu": "GPU",
    "gpus": "GPUs",
    "kv_heads": "Key/value heads",
    "mlp_width": "MLP width",
    "mtbf": "Time between failures",
    "on_hang": "When ranks hang",
}
"""Labels of keys whose name alone does not say it."""


OTHER_NAMES = {
    "run.args": "command line flags",
    "run.env": "environ export",
    "run.interpreter": "python venv conda",
    "run.environment": "venv virtualenv conda uv requirements",
    "data.source": "dataset path train file",
    "data.heldout": "eval test split",
    "data.workers": "num workers dataloader data loader",
    "training.steps": "max steps iterations",
    "training.epochs": "num train epochs",
    "training.microbatch": "batch size per device train batch size",
    "training.accumulation": "gradient accumulation steps",
    "training.lr": "learning rate step size",
    "training.clip": "max grad norm gradient clipping",
    "training.precision": "mixed precision amp autocast half fp16 bf16",
    "training.activation_checkpointing": "gradient checkpointing",
    "training.compile": "torch.compile inductor",
    "training.eval_every": "eval steps evaluation interval",
    "training.patience": "early stopping",
    "training.seed": "random state",
    "distributed.strategy": "parallelism zero",
    "distributed.nodes": "world size hosts machines num nodes nnodes",
    "distributed.nproc": "world size num processes nproc per node gpus",
    "distributed.devices": "cuda visible devices gpus",
    "checkpoint.every": "save steps interval",
    "checkpoint.keep_last": "save total limit",
    "checkpoint.directory": "output dir save path",
    "checkpoint.resume": "resume from checkpoint",
}
"""Words that people of other trainers search for."""


def also_called(key: Key) -> str:
    """Return other names of a key, lower case; empty if there are none."""
    return OTHER_NAMES.get(dotted(key.path), "")


def title_of(group: str) -> str:
    """Return its heading."""
    return TITLES.get(group, group.capitalize())


def label_of(key: Key) -> str:
    """Return a field's label; the key itself is in the tooltip and in the help.

    A group that is a single free table has the label `Options`: its name is already the heading.
    """
    if key.free and len(key.path) == 1:
        return "Options"
    name = key.path[-1]
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


def heading_of(key: Key) -> str:
    """Return the heading of a field within its group; empty if none."""
    if key.group is not None:
        return _HEADINGS.get(key.group, key.group.capitalize())
    inner = key.path[1] if len(key.path) > 2 else ""
    return _HEADINGS.get(inner, inner.capitalize())


def keys_by_group(recipe: str | None) -> dict[str, list[Key]]:
    """Return the keys with a field in a run of `recipe`, in schema order, grouped by heading."""
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
    """Return the keys of each of the repeated tables of `table`."""
    return [key for key in all_keys().values() if key.path[:-1] == table.path]
