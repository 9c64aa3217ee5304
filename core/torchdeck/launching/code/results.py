"""Results of trainings, which are never code: weights, checkpoints, event files, folders of trackers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence

_WEIGHTS = re.compile(
    r".*\.(?:safetensors|pt|pth|ckpt|gguf|distcp|wandb)"
    r"|(?:pytorch_model|adapter_model|model|optimizer|scheduler|consolidated|training_args)\b[\w.-]*\.bin"
    r"|(?:model|optimizer|pytorch_model)\.(?:safetensors|bin)\.index\.json"
    r"|(?:random_states|sampler|rng_state)_\d+\.(?:pkl|bin|pth)"
    r"|events\.out\.tfevents\..*|trainer_state\.json",
    re.IGNORECASE,
)
_CHECKPOINT = re.compile(
    r"(?:checkpoint|global_step|global_steps|step|iter|epoch|ckpt)[-_=]?\d[\w=.-]*", re.IGNORECASE
)
"""Name of a folder that is one checkpoint: checkpoint-500, step-40, iter_0000100, global_step8."""
_OUTPUTS = frozenset(
    (
        *("output", "outputs", "out", "result", "results", "runs", "logs", "experiments", "multirun"),
        *("checkpoint", "checkpoints", "ckpt", "ckpts", "saved_models", "tb_logs", "tensorboard"),
    )
)
"""Names of folders that programs write to; left out whole if results and no code are in them."""
_CODE = re.compile(r".*\.(?:pyx?|pyi|sh|ipynb|cu|cuh|c|cc|cpp|h|hpp|rs|jl|lua|js|ts)", re.IGNORECASE)
_TRACKERS = {
    "wandb": re.compile(r"(?:offline-)?run-\d.*|latest-run|debug\.log"),
    "mlruns": re.compile(r"\d+|\.trash|models"),
    "lightning_logs": re.compile(r"version_\d+"),
}
"""Folder of a tracker → a name of which one is in it."""


def is_result(name: str) -> bool:
    """Return whether a file of this name, without its folder, was written by a training."""
    return _WEIGHTS.fullmatch(name) is not None


def is_tracker(folder: str, names: Collection[str]) -> bool:
    """Return whether a folder of this name that contains `names` is where a tracker keeps its runs."""
    pattern = _TRACKERS.get(folder)
    return pattern is not None and any(map(pattern.fullmatch, names))


def whole_folders(results: Sequence[str], files: Iterable[str]) -> list[str]:
    """Return folders of output that are left out whole: results are in them, and no code.

    Args:
        results: paths of results, relative, with slashes.
        files: paths of all other files.

    Returns:
        The topmost such folders, sorted.
    """
    candidates = {folder for name in results for folder in _parents(name) if _is_output(folder)}
    with_code = {folder for name in files if _CODE.fullmatch(name) for folder in _parents(name)}
    kept = candidates - with_code
    return sorted(folder for folder in kept if kept.isdisjoint(_parents(folder)))


def _is_output(folder: str) -> bool:
    name = posixpath.basename(folder)
    return name.lower() in _OUTPUTS or _CHECKPOINT.fullmatch(name) is not None


def _parents(name: str) -> list[str]:
    found = []
    while name := posixpath.dirname(name):
        found.append(name)
    return found
