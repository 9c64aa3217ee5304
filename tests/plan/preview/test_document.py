"""The preview as JSON: programs depend on its keys."""

import json
from typing import Any

import numpy as np

from support.values.machines import config, node, plan
from support.values.previews import memory, preview, with_memory
from torchdeck.contract.inventory import Inventory
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.plan.preview import make_preview
from torchdeck.plan.preview.preview_json import document as preview_document

KEYS = {
    "": [
        *("arithmetic", "communication", "data", "headline", "memory", "notes", "placement"),
        *("program", "smaller", "version"),
    ],
    "smaller[]": [
        *("accumulation", "global_batch", "lr", "nodes", "nproc", "peak_bytes", "verdict", "warnings"),
        "world_size",
    ],
    "placement": ["absent", "nodes", "replicas", "shard", "spares", "world_size"],
    "placement.nodes[]": ["address", "devices", "kind", "name", "node_rank", "ranks"],
    "data": [
        *("epochs", "imbalance", "padding", "policies", "ranks", "size", "source", "steps"),
        *("steps_per_epoch", "unit"),
    ],
    "data.ranks[]": ["ranks", "samples", "tokens"],
    "data.policies[]": ["chosen", "imbalance", "name", "slowest", "steps"],
    "memory": ["groups", "source", "suggestions", "verdict"],
    "memory.groups[]": [
        *("capacity_bytes", "free_bytes", "high_bytes", "low_bytes", "peak_bytes", "phase", "ranks"),
        *("state", "terms", "verdict"),
    ],
}


def keys(value: Any, path: str = "") -> dict[str, list[str]]:
    """The keys of every object in `value`, by its place; of a list, those of its first item."""
    if isinstance(value, list):
        return keys(value[0], f"{path}[]") if value and isinstance(value[0], dict) else {}
    if not isinstance(value, dict):
        return {}
    found = {path: sorted(value)}
    for name, item in value.items():
        found |= keys(item, f"{path}.{name}" if path else name)
    return found


def test_the_keys_stay() -> None:
    """A key that goes, or another meaning, is another version."""
    lengths = build_batch_plan(np.arange(1, 65), token_budget=64)
    training = {"epochs": 1, "batch_plan": "/bp"}
    made = preview(1, 2, batch_plan=lengths, training=training, distributed={"nproc": "1:2"})
    document = preview_document(with_memory(made, memory()))
    assert document["version"] == 1
    found = keys(json.loads(json.dumps(document)))
    assert {path: found[path] for path in KEYS if path in found} == {
        path: names for path, names in KEYS.items() if path in found
    }
    assert set(KEYS) <= set(found)


def test_a_script_has_a_document_too() -> None:
    """Its placement; nothing is known of data and memory."""
    asked = config(distributed={"nproc": 2})
    document = preview_document(make_preview(asked, plan(asked), Inventory((node(),))))
    assert (document["data"], document["memory"], document["arithmetic"]) == (None, None, [])
    assert document["placement"]["nodes"][0]["ranks"] == [0, 1]
    assert document["headline"] == "2 ranks on localhost over gloo"
