"""No rank unpickles what another sends: torch's object collectives fail in every rank of these tests."""

import ast
import re
from pathlib import Path

import pytest

import torchdeck
from support.ranks.measured_ranks import measure
from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked

IN_RANKS = (
    "distributed",
    "recipes",
    "compat",
    "data",
    "integrations",
    "telemetry",
    "contract",
    "trainers",
    "environment.py",
)
"""What ranks execute."""
ON_NODES = (*IN_RANKS, "agent")
FORBIDDEN = {
    *(f"pickle.{name}" for name in ("load", "loads", "Unpickler")),
    *("marshal.load", "marshal.loads", "dill.load", "dill.loads", "torch.distributed.rpc"),
}
OURS_BY_ITSELF = {"state_dict_saver", "state_dict_loader"}
"""Modules of torch.distributed.checkpoint whose functions use object collectives."""


@pytest.mark.processes
@pytest.mark.parametrize(
    "strategy", ["ddp", *(pytest.param(name, marks=pytest.mark.soak) for name in ("fsdp", "hsdp"))]
)
def test_a_training_saves_and_resumes_without_them(tmp_path: Path, strategy: str) -> None:
    """Two ranks train, evaluate and save, two resume, and one loads what two wrote."""
    hsdp = {"shard": 2} if strategy == "hsdp" else {}
    first, second = (
        recipe_settings(tmp_path, strategy=strategy, hsdp=hsdp, steps=steps, eval_every=1, every=1)
        for steps in (2, 3)
    )
    alone = recipe_settings(tmp_path, strategy="single", steps=4, eval_every=1, every=1)
    final = str(tmp_path / "checkpoints" / "final")
    runs = run_forked(
        ForkedRun(tmp_path, first, 2),
        ForkedRun(tmp_path, second, 2, attempt=2, resume=final),
        ForkedRun(tmp_path, alone, 1, attempt=3, resume=final),
    )
    for ranks in runs:
        ranks.succeeded()
    assert sorted(runs[2].losses()) == [4]


@pytest.mark.processes
def test_the_guard_fails_a_rank_that_uses_one() -> None:
    """Without that the test above would show nothing."""
    with pytest.raises(RuntimeError, match="an object collective was called"):
        measure("support.ranks.no_object_collectives:use_one", [{"world_size": 2}])


def test_no_source_of_ours_calls_one() -> None:
    """Nor torch's own checkpoint functions, which would, nor pickle."""
    root = Path(torchdeck.__file__).parent
    places = [root / name for name in ON_NODES]
    sources = [path for place in places for path in (sorted(place.rglob("*.py")) or [place])]
    assert len(sources) > 250
    found = [f"{path.relative_to(root)}: {name}" for path in sources for name in _forbidden(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch.distributed as dist\ndist.all_gather_object(found, 1)", "all_gather_object"),
        (
            "from torch.distributed import broadcast_object_list\nbroadcast_object_list([1])",
            "broadcast_object_list",
        ),
        ("from torch.distributed import gather_object as gather\ngather(1)", "gather_object"),
        ("from torch import distributed\ndistributed.recv_object_list([1])", "recv_object_list"),
        ("getattr(dist, 'scatter_object_list')(found, given)", "scatter_object_list"),
        ("from torch.distributed.distributed_c10d import *", "torch.distributed.distributed_c10d.*"),
        ("from pickle import loads as read\nread(content)", "pickle.loads"),
        ("import pickle as p\np.loads(content)", "pickle.loads"),
        ("import torch.distributed.rpc", "torch.distributed.rpc"),
        ("from torch.distributed import rpc", "torch.distributed.rpc"),
        ("from torch.distributed.checkpoint.state_dict_saver import save", "state_dict_saver"),
        ("import torch.distributed.checkpoint as dcp\ndcp.save(state)", "torch.distributed.checkpoint.save"),
    ],
)
def test_one_is_found_however_it_is_named(source: str, name: str) -> None:
    assert _forbidden(source) == [name]


def test_what_only_looks_like_one_is_none() -> None:
    assert (
        _forbidden("from torchdeck.contract.bounded_json import parse_json_object\nparse_json_object(b'')")
        == []
    )


OBJECTS = re.compile(r"(all_gather|gather|broadcast|scatter|send|recv|isend|irecv)_object(_list)?")
DCP = "torch.distributed.checkpoint"


def _forbidden(source: str) -> list[str]:
    """Names of what unpickles in `source`: however it is imported, renamed, or looked up by its name."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    """Names in the source of what it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {(each.asname or each.name): each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    named = set(modules.values())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, dot, rest = ast.unparse(node).partition(".")
            named.add(modules.get(first, first) + dot + rest)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add(node.value)
    return sorted({found for name in named if (found := _reason(name))})


def _reason(name: str) -> str:
    last = name.rpartition(".")[2]
    if OBJECTS.fullmatch(last):
        return last
    if name in FORBIDDEN or name in (f"{DCP}.save", f"{DCP}.load", f"{DCP}.async_save"):
        return name
    if name.startswith("torch.distributed") and last == "*":
        return name
    return next((part for part in name.split(".") if part in OURS_BY_ITSELF), "")
