"""A key misspelt once is one problem that names the right key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.values.run_files import MINIMAL, only_problem
from torchdeck.config.keys import all_keys, keys_in
from torchdeck.config.loader import config_from_dict
from torchdeck.config.problems import ConfigError

FULL: dict[str, Any] = {
    "name": "x",
    "run": {"recipe": "byte-gpt", "env": {"A": "b"}, "args": [], "working_dir": ".", "interpreter": "python"},
    "model": {"layers": 2, "heads": 2, "width": 8, "context": 8, "dropout": 0.1},
    "data": {"source": "stdlib", "heldout": 0.1, "max_bytes": 1000},
    "training": {
        "steps": 10, "microbatch": 2, "accumulation": 2, "optimizer": "adam", "lr": 0.1, "weight_decay": 0.1,
        "betas": [0.1, 0.2], "clip": 1.0, "schedule": "cosine", "warmup_steps": 5, "min_lr_ratio": 0.2,
        "scaling": "linear", "reference_batch": 8, "precision": "bf16", "compile": True,
        "deterministic": True,
        "seed": 3, "eval_every": 5, "eval_batches": 2,
    },
    "distributed": {
        "strategy": "fsdp", "nodes": ["localhost"], "nproc": 2, "devices": [0, 1], "backend": "gloo",
        "timeout": 30,
        "rendezvous": {"backend": "static", "port": 29500},
        "fsdp": {
            "reshard_after_forward": False, "wrap": "size", "min_params": 5, "param_dtype": "bf16",
            "reduce_dtype": "fp32",
        },
    },
    "checkpoint": {"every": 5, "keep_last": 3, "directory": "ck", "resume": "never", "final": False},
    "telemetry": {
        "every": 2,
        "stdout": False,
        "inside": False,
        "patterns": ["(?P<x>.)"],
        "system_interval": 2.0,
    },
    "limits": {"min_free_disk": "1GB", "max_hours": 2},
    "launch": {
        "max_restarts": 1, "restart_delay": 2.0, "on_hang": "stop", "hang_after": 40, "stop_grace": 5,
        "kill_grace": 5,
        "queue": True,
    },
}  # fmt: skip
"""Every key that can be given together, most of them different from their defaults."""


def _paths(table: dict[str, Any], parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in table.items():
        path = (*parent, key)
        if path[:2] != ("run", "env") or len(path) == 2:
            found.append(path)
            found += _paths(value, path) if isinstance(value, dict) else []
    return found


def _renamed(table: dict[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    if len(path) == 1:
        return {name if key == path[0] else key: value for key, value in table.items()}
    return {**table, path[0]: _renamed(table[path[0]], path[1:], name)}


@st.composite
def misspelt(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """A key's path, and its last part with one keystroke wrong."""
    path = draw(st.sampled_from(_paths(FULL)))
    name = path[-1]
    at = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_"))
    kind = draw(st.sampled_from(["left out", "changed", "added", "swapped"]))
    word = {
        "left out": name[:at] + name[at + 1 :],
        "changed": name[:at] + letter + name[at + 1 :],
        "added": name[:at] + letter + name[at:],
        "swapped": name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
    }[kind]
    assume(word and word not in keys_in(path[:-1]))
    return path, word


def test_the_full_table_is_right() -> None:
    """The table that is misspelt below has nothing wrong with it."""
    assert config_from_dict(FULL, "/").training.steps == 10


@settings(deadline=None)
@given(misspelt())
def test_one_misspelling_is_one_problem(case: tuple[tuple[str, ...], str]) -> None:
    """Whichever key of whichever table: one problem, at the misspelt key, naming the right one."""
    path, word = case
    with pytest.raises(ConfigError) as caught:
        config_from_dict(_renamed(FULL, path, word), "/")
    (problem,) = caught.value.problems
    assert problem.path == ".".join((*path[:-1], word))
    assert ".".join(path) in problem.right.split(" or ")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("[training]\nnproc = 2\n", "nproc in [distributed]"),
        ("[training]\nevery = 2\n", "every in [checkpoint] or every in [telemetry]"),
        ("[run]\nstrategy = 'ddp'\n", "strategy in [distributed]"),
        ("[launch]\nname = 'x'\n", "name before the first table"),
        ("learning_rate = 3\n", "one of the keys of a run file: extends, name, run"),
        ("[model]\nembedding = 3\n", "one of the keys of [model]: layers, heads"),
        ("[training]\nmicro-batch = 3\n", "training.microbatch"),
        ("[training]\nLR = 3\n", "training.lr"),
        ("[fsdp]\nwrap = 'size'\n", "fsdp in [distributed]"),
    ],
)
def test_keys_in_the_wrong_place(tmp_path: Path, text: str, right: str) -> None:
    """A key that stands elsewhere is sent there; one that is nothing is told what there is."""
    header, _, line = text.rpartition("\n")[0].rpartition("\n")
    whole = MINIMAL.replace(header, text) if header in MINIMAL and header else MINIMAL + text
    if not header:
        whole = f"{line}\n{MINIMAL}"
    assert only_problem(tmp_path, whole).right.startswith(right)


def test_a_misspelt_extends_says_nothing_of_what_the_base_would_bring(tmp_path: Path) -> None:
    """Without its base a file lacks much; only the misspelling is told."""
    problem = only_problem(tmp_path, "extend = 'base.toml'\n[training]\nlr = 1\n")
    assert problem.right == "extends"


def test_every_key_is_reachable_from_its_table() -> None:
    """keys_in lists what all_keys holds."""
    assert all(path[-1] in keys_in(path[:-1]) for path in all_keys())
