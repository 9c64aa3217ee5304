"""No rank unpickles what another sends: torch's object collectives fail in every rank of these tests."""

import ast
from pathlib import Path

import pytest

import torchdeck
from support.forked_training import ForkedRun, run_forked
from support.measured_ranks import measure
from support.recipe_ranks import recipe_settings

IN_RANKS = ("distributed", "recipes", "data", "integrations", "telemetry")
"""Folders of what ranks execute."""
FORBIDDEN = {"pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "dill.loads"}
OURS_BY_ITSELF = {"state_dict_saver", "state_dict_loader"}
"""Modules of torch.distributed.checkpoint whose functions use object collectives."""


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


def test_the_guard_fails_a_rank_that_uses_one() -> None:
    """Without that the test above would show nothing."""
    with pytest.raises(RuntimeError, match="an object collective was called"):
        measure("support.no_object_collectives:use_one", [{"world_size": 2}])


def test_no_source_of_ours_calls_one() -> None:
    """Nor torch's own checkpoint functions, which would, nor pickle."""
    root = Path(torchdeck.__file__).parent
    sources = [path for folder in IN_RANKS for path in (root / folder).rglob("*.py")]
    assert len(sources) > 100
    found = [f"{path.relative_to(root)}: {name}" for path in sources for name in _forbidden(path)]
    assert found == []


def _forbidden(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    called = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))}
    objects = {name for name in called if name.endswith(("_object", "_object_list"))}
    imported = {
        (node.module or "").rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    return sorted((called & FORBIDDEN) | (imported & OURS_BY_ITSELF) | {n for n in objects if "." in n})
