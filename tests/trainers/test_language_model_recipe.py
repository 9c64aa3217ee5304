"""Recipe hf-causal-lm with transformers and PEFT: what it reads, trains, saves and continues."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ranks.measured_ranks import measure
from support.ranks.recipe_ranks import recipe_settings
from support.system.trainers_python import ABSENT, trainers_python
from support.training.strategies import STRATEGIES, resumed_exactly
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.recipes import hugging_face

PYTHON = trainers_python()
pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.skipif(PYTHON is None, reason=ABSENT),
]
PAIRS = [(f"{number} apples? ", "one " * (number % 7) + "enough") for number in range(40)]
STEPS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in `model`, and its samples."""
    made = tmp_path_factory.mktemp("language-model")
    asked("write", {"path": str(made / "model")})
    lines = [json.dumps({"prompt": prompt, "response": response}) for prompt, response in PAIRS]
    (made / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return made


def asked(function: str, *jobs: dict[str, Any]) -> list[Any]:
    """What a function of `support.training.language_model` returns for each job."""
    assert PYTHON is not None
    each = [{"world_size": 1, **job} for job in jobs]
    return [ranks[0] for ranks in measure(f"support.training.language_model:{function}", each, python=PYTHON)]


def test_responses_are_learned_and_rows_may_be_shared(folder: Path) -> None:
    """The loss of samples that share a row is that of samples with rows of their own."""
    paths = {"path": str(folder / "model"), "source": str(folder / "pairs.jsonl")}
    (found,) = asked("samples", paths)
    for tokens, targets, (prompt, response) in zip(found["tokens"], found["targets"], PAIRS, strict=False):
        assert len(tokens) == len(targets) == len(prompt) + len(response), (
            "bytes, and the end of the response"
        )
        assert [target != -100 for target in targets] == [False] * (len(prompt) - 1) + [True] * (
            len(response) + 1
        )
        assert targets[len(prompt) : -1] == tokens[len(prompt) + 1 :]
    assert found["alone"][1] == found["shared"][1] == sum(len(response) + 1 for _, response in PAIRS[:4])
    assert found["shared"][0] == pytest.approx(found["alone"][0], rel=1e-5)


def test_what_is_trained_is_what_is_planned(folder: Path) -> None:
    """LoRA of all linear layers but the head or of chosen ones, or all of the model: as in a trace."""
    path, source = str(folder / "model"), str(folder / "pairs.jsonl")
    tables = (
        {"method": "full"},
        {"rank": 4},
        {"rank": 4, "targets": ["q_proj", "v_proj"]},
    )
    full, every, chosen = asked(
        "model", *({"model": {"path": path, **table}, "source": source} for table in tables)
    )
    for found in (full, every, chosen):
        assert (found["traced"], found["traced frozen"]) == (found["trained"], found["frozen"])
        assert found["blocks"] == ["LlamaDecoderLayer"] * 2
        assert not any("real" in note for note in found["notes"])
    assert full["frozen"] == 0
    assert every["frozen"] == chosen["frozen"] == full["trained"]
    names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert (every["layers"], chosen["layers"]) == (names, ["q_proj", "v_proj"])
    assert chosen["trained"] == 2 * 4 * ((32 + 32) + (32 + 16)), (
        "two layers of rank 4, from 32 to 32 and to 16"
    )


@pytest.mark.parametrize("method", ["lora", "full"])
def test_it_starts_from_weights_of_another_training(method: str, folder: Path, tmp_path: Path) -> None:
    """`model.init_from` names a file with all of the model, LoRA's matrices too."""
    model = {"path": str(folder / "model"), "method": method}
    (found,) = asked("started", {"model": model, "weights": str(tmp_path / f"{method}.pt")})
    assert found == {"equal": True, "as fresh": False}


def copied(folder: Path, name: str, *lost: str) -> Path:
    """A copy of the model without some of its files."""
    shutil.copytree(folder / "model", folder / name)
    for file in lost:
        (folder / name / file).unlink()
    return folder / name


def test_a_model_that_cannot_be_read_gets_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which folder, and what is wrong; a weight that is missing does not begin with random values."""
    copied(folder, "config", "config.json")
    copied(folder, "weights", "model.safetensors")
    copied(folder, "tokens", "tokenizer.json", "tokenizer_config.json")
    cut = copied(folder, "cut") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-100])
    larger = copied(folder, "larger") / "config.json"
    larger.write_text(json.dumps({**json.loads(larger.read_text()), "num_hidden_layers": 3}))
    names = ("nowhere", "config", "weights", "tokens", "cut", "larger")
    whole = str(folder / "model")
    tables = [*({"path": str(folder / name)} for name in names), {"path": whole, "targets": ["nothing"]}]
    said = asked("refused", *({"model": table} for table in tables))
    assert [text.partition(" ")[0] for text in said] == ["model.path"] * len(names) + ["model.targets:"], said
    for text, name in zip(said, names, strict=False):
        assert str(folder / name) in text
    assert "lacks weights of the model, such as model.layers.2." in said[5]
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(RecipeError, match=r"needs transformers .*pip install 'torchdeck\[hf\]'"):
        hugging_face.build_model({"path": whole})


def test_rows_are_shared_only_if_samples_are_kept_apart(folder: Path) -> None:
    """Eager attention would add the mask's True as 1."""
    eager = copied(folder, "eager") / "config.json"
    eager.write_text(json.dumps({**json.loads(eager.read_text()), "_attn_implementation": "eager"}))
    (said,) = asked("shared_rows", {"path": str(eager.parent), "source": str(folder / "pairs.jsonl")})
    assert "the model's attention is 'eager'" in said
    assert "without --pack" in said


@pytest.mark.parametrize("strategies", STRATEGIES)
@pytest.mark.parametrize("method", ["lora", "full"])
def test_it_learns_under_strategies_and_resumes_exactly(
    method: str, strategies: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    """With the same losses; stopped and resumed, each loss is the same in all digits."""

    def settings(run: Path, strategy: str, ranks: int, steps: int) -> dict[str, Any]:
        return recipe_settings(
            run,
            "hf-causal-lm",
            model={"path": str(folder / "model"), "method": method, "context": 64},
            data={"source": str(folder / "pairs.jsonl"), "heldout": 0.1},
            strategy=strategy,
            steps=steps,
            microbatch=8 // ranks,
            lr=2e-2,
            eval_every=STEPS,
            eval_batches=1,
            clip=1.0,
        )

    assert PYTHON is not None
    first, second = (
        [*resumed_exactly(tmp_path, strategy, settings, STEPS, python=PYTHON).losses().values()]
        for strategy in strategies
    )
    assert first[-1] < 0.98 * first[0]
    assert second == pytest.approx(first, rel=1e-3)
