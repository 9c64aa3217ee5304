"""Machines and plans made of values, for tests of what is decided about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Device, InterpreterFacts, Inventory, NodeInfo
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.plan.planner import make_plan

PYTHON = InterpreterFacts("/usr/bin/python3", "3.11.7", "2.13.0+cpu", "2.4.6")


def node(name: str = "localhost", gpus: int = 0, cores: int = 8) -> NodeInfo:
    """A machine with `gpus` GPUs, its address made from its name."""
    devices = tuple(Device(index, f"GPU-{name}-{index}", "Tester", 2**30) for index in range(gpus))
    return NodeInfo(name, f"{name}.test", devices, cores)


def config(run: Mapping[str, Any] | None = None, **tables: Any) -> RunConfig:
    """A config with [run] `run` (a script, if nothing else) and the other tables as given."""
    chosen = {"script": "/code/train.py"} if run is None else run
    return config_from_dict({"run": chosen, **tables}, "/code")


def byte_gpt(**tables: Any) -> RunConfig:
    """A config of the built-in recipe; 100 steps if nothing else is said."""
    return config({"recipe": "byte-gpt"}, **{"training": {"steps": 100}, **tables})


def plan(
    asked: RunConfig | None = None,
    *nodes: NodeInfo,
    interpreter: InterpreterFacts = PYTHON,
    environ: Mapping[str, str] | None = None,
    code: CodeTree | None = None,
) -> LaunchPlan:
    """The plan of `asked` on `nodes`, a machine without GPUs if none is given."""
    machines = nodes or (node(),)
    return make_plan(
        config() if asked is None else asked,
        Inventory(machines),
        CodeTree() if code is None else code,
        interpreters={machine.name: interpreter for machine in machines},
        environ=environ or {},
    )
