"""Previews made of values."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from support.values.machines import PYTHON, byte_gpt, config
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Device, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.contract.plan.model_profile import ModelProfile, TensorInfo
from torchdeck.contract.plan.prediction import PredictedMemory, Prediction
from torchdeck.data.batch_plan import BatchPlan
from torchdeck.launching.facts.program_facts import with_program
from torchdeck.plan.known import Known
from torchdeck.plan.memory.fullness import make_memory
from torchdeck.plan.planner import make_plan
from torchdeck.plan.preview import Preview, make_preview

GIB = 2**30


def profile(samples: int | None = 1000, tokens: float | None = 128.0) -> ModelProfile:
    """A model of two tensors over `samples` samples."""
    tensors = (
        TensorInfo("embedding.weight", (10, 4), "float32", trainable=True, unit=0),
        TensorInfo("blocks.0.bias", (3,), "float32", trainable=True, unit=1),
    )
    return ModelProfile(
        "traced",
        tensors,
        (),
        ("", "blocks.0"),
        "fp32",
        (),
        train_samples=samples,
        tokens_per_sample=tokens,
    )


def machines(nodes: int, gpus: int, name: str = "n{:04d}") -> Inventory:
    """Nodes that are alike."""
    return Inventory(
        tuple(
            NodeInfo(
                name.format(node),
                f"10.0.{node // 256}.{node % 256}",
                tuple(Device(gpu, f"GPU-{node}-{gpu}", "Tester 80GB", 80 * GIB) for gpu in range(gpus)),
                64,
            )
            for node in range(nodes)
        )
    )


def preview(
    nodes: int = 1,
    gpus: int = 2,
    *,
    name: str = "n{:04d}",
    batch_plan: BatchPlan | None = None,
    known: Known | None = None,
    **tables: Any,
) -> Preview:
    """A byte-gpt run on `nodes` × `gpus`; tables of the config as given."""
    inventory = machines(nodes, gpus, name)
    distributed = {"nodes": [node.name for node in inventory], **tables.pop("distributed", {})}
    asked = byte_gpt(**tables, distributed=distributed)
    facts = Known(profile(), batch_plan) if known is None else known
    plan = make_plan(
        asked,
        inventory,
        CodeTree(),
        interpreters={node.name: PYTHON for node in inventory},
        known=facts,
    )
    return make_preview(asked, plan, inventory, facts)


def with_memory(made: Preview, *groups: PredictedMemory) -> Preview:
    """The same preview with this prediction of memory."""
    return dataclasses.replace(made, memory=make_memory(Prediction("traced", groups)))


def memory(
    first: int = 0, last: int = 1, *, peak: float = 40, capacity: float | None = 80, verdict: str = "fits"
) -> PredictedMemory:
    """Ranks that need `peak` GiB."""
    peak_bytes = int(peak * GIB)
    terms = {"activations": 0.4, "optimizer": 0.3, "parameters": 0.15, "gradients": 0.1, "buckets": 0.05}
    return PredictedMemory(
        ranks=((first, last),),
        peak_bytes=peak_bytes,
        low_bytes=int(peak_bytes * 0.97),
        high_bytes=int(peak_bytes * 1.03),
        phase="backward",
        terms={name: int(share * peak_bytes) for name, share in terms.items()},
        state={"parameters": GIB, "gradients": GIB, "optimizer": 2 * GIB},
        capacity_bytes=None if capacity is None else int(capacity * GIB),
        free_bytes=None,
        verdict=verdict,
    )


def script_preview(folder: Path, *args: str, nodes: int = 1, gpus: int = 2, **tables: Any) -> Preview:
    """A script's run on `nodes` × `gpus`, with what is known of it by its arguments and files in `folder`."""
    inventory = machines(nodes, gpus)
    distributed = {"nodes": [node.name for node in inventory], **tables.pop("distributed", {})}
    run = {"script": str(folder / "train.py"), "args": list(args), "working_dir": str(folder)}
    asked = config({**run, **tables.pop("run", {})}, **tables, distributed=distributed)
    facts = known_program(asked)
    made = make_plan(
        asked,
        inventory,
        CodeTree(),
        interpreters={node.name: PYTHON for node in inventory},
        known=facts,
    )
    return make_preview(asked, made, inventory, facts)


def known_program(asked: RunConfig) -> Known:
    """What is known of a script before its plan is made."""
    return with_program(asked, Known())
