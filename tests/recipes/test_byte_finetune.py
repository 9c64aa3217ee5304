"""Fine-tuning by a batch plan."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.cli.main import main
from torchdeck.data.batch_plan import load_batch_plan
from torchdeck.data.step_order import Layout
from torchdeck.distributed.exchange.exchanging import to_single
from torchdeck.distributed.recipe_loading import RecipeError, load_recipe
from torchdeck.distributed.trainer.setup import build_model
from torchdeck.recipes import byte_finetune, byte_gpt
from torchdeck.recipes.byte_finetune import byte_sample, collate
from torchdeck.recipes.prompt_pairs import Pair
from torchdeck.recipes.responses import IGNORED

MODEL: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "context": 48, "dropout": 0.0}
PAIRS = [(f"{n} apples? ", "one " * (1 + n % 7) + "enough") for n in range(40)]


def test_the_response_and_its_end_are_learnt() -> None:
    """The prompt's last byte predicts the response's first; the byte 0 comes last and is never read."""
    tokens, targets = byte_sample(Pair(b"ab", b"cd"), 10)
    assert bytes(tokens.tolist()) == b"abcd"
    assert targets.tolist() == [IGNORED, *b"cd", 0]
    assert byte_sample(Pair(b"", b"cd"), 10)[1].tolist() == [*b"d", 0]
    assert [part.tolist() for part in byte_sample(Pair(b"abc", b"d"), 2)] == [[*b"ab"], [IGNORED, IGNORED]]


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_rows_do_not_change_the_loss(data: st.DataObject) -> None:
    """However samples are packed and padded, the loss is the mean over all targets of each sample alone."""
    texts = st.binary(max_size=12)
    pairs = data.draw(st.lists(st.builds(Pair, texts, texts), min_size=1, max_size=6))
    samples = [byte_sample(pair, 48) for pair in pairs]
    rows = data.draw(st.lists(st.integers(1, 3), min_size=len(samples), max_size=len(samples)))
    sizes, left = [], len(samples)
    for size in rows:
        sizes += [min(size, left)] if left else []
        left -= min(size, left)
    ends = iter(len(tokens) for tokens, _ in samples)
    longest = max(sum(next(ends) for _ in range(size)) for size in sizes)
    packed = data.draw(st.booleans())
    layout = Layout(longest, tuple(sizes)) if packed else Layout(48, None)
    torch.manual_seed(1)
    model = byte_finetune.build_model(MODEL).double()
    with torch.no_grad():
        made, count = byte_finetune.loss(
            model,
            collate(
                samples, layout=data.draw(st.sampled_from([layout, None]) if not packed else st.just(layout))
            ),
        )
        total, wanted = 0.0, 0
        for tokens, targets in samples:
            if len(tokens):
                logits = model(tokens[None])[0]
                total += float(
                    torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
                )
                wanted += int((targets != IGNORED).sum())
    assert count == wanted
    assert float(made) * max(1, count) == pytest.approx(total, rel=1e-9, abs=1e-12)


def test_a_layout_cuts_and_pads() -> None:
    """Rows are as long as the plan says; a longer sample loses its end."""
    samples = [byte_sample(Pair(b"abcdef", b"gh"), 48), byte_sample(Pair(b"a", b"b"), 48)]
    batch = collate(samples, layout=Layout(7, None))
    assert batch["tokens"].tolist() == [[*b"abcdefg"], [*b"ab", 0, 0, 0, 0, 0]]
    assert batch["positions"].tolist()[1][:3] == [0, 1, 0]
    assert batch["learnt"] == 2 + 2
    assert "mask" not in batch


def run_file(folder: Path, *, pack: bool = False, heldout: float = 0.1) -> Path:
    lines = [json.dumps({"prompt": prompt, "response": response}) for prompt, response in PAIRS]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    path = folder / "run.toml"
    path.write_text(
        '[run]\nrecipe = "byte-finetune"\n[model]\nlayers = 2\nheads = 2\nwidth = 16\ncontext = 48\n'
        f'[data]\nsource = "pairs.jsonl"\nheldout = {heldout}\n[training]\nepochs = 2\nbatch_plan = "plan"\n'
    )
    arguments = ["batchplan", "build", "--run", str(path), "--token-budget", "120", "--json"]
    assert main([*arguments, *(["--pack", "--max-length", "60"] if pack else [])]) == 0
    return path


def test_a_plan_is_built_from_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`batchplan build --run` plans the samples that the run trains on, where the run looks for the plan."""
    path = run_file(tmp_path)
    plan = load_batch_plan(tmp_path / "plan", verify=True)
    assert (plan.size, plan.epochs, plan.meta.settings.max_length) == (36, 2, 48)
    assert json.loads(capsys.readouterr().out)["unit"] == "bytes"
    assert main(["batchplan", "verify", str(tmp_path / "plan"), "--run", str(path)]) == 0
    (tmp_path / "pairs.jsonl").write_text('{"text": "other"}\n' * 40)
    assert main(["batchplan", "verify", str(tmp_path / "plan"), "--run", str(path)]) == 1
    path.write_text(path.read_text().replace("byte-finetune", "byte-gpt"))
    assert main(["batchplan", "build", "--run", str(path)]) == 2


@pytest.mark.processes
def test_trained_by_a_plan_stopped_and_gone_on(tmp_path: Path) -> None:
    """Two ranks, packed and balanced: what a resume does is what would have been done, to the bit.

    It does so where the weights that a run once started with are gone.
    """
    run_file(tmp_path, pack=True)

    final = tmp_path / "parts" / "checkpoints" / "final"

    def run_of(name: str, *, steps: int, resume: str = "", attempt: int = 1) -> ForkedRun:
        settings = recipe_settings(
            tmp_path / name,
            "byte-finetune",
            model=MODEL | ({"init_from": str(tmp_path / "gone")} if resume else {}),
            data={"source": str(tmp_path / "pairs.jsonl"), "heldout": 0.1},
            batch_plan=str(tmp_path / "plan"),
            balance="tokens",
            steps=steps,
            eval_every=4,
        )
        return ForkedRun(tmp_path / name, settings, world_size=2, resume=resume, attempt=attempt)

    runs = run_forked(
        run_of("whole", steps=8),
        run_of("parts", steps=4),
        run_of("parts", steps=8, resume=str(final), attempt=2),
    )
    whole, begun, rest = (ranks.succeeded().losses() for ranks in runs)
    assert {**begun, **rest} == whole
    assert list(rest) == [5, 6, 7, 8]
    assert whole[8] < whole[1]
    start_from(final, tmp_path)


def start_from(checkpoint: Path, folder: Path) -> None:
    """A checkpoint's weights are what a model starts with, and a damaged one's are not."""
    torch.manual_seed(5)
    fresh = byte_gpt.build_model(MODEL)
    started = built(checkpoint)
    assert not torch.equal(started.embedding.weight, fresh.embedding.weight)
    to_single(
        checkpoint, folder / "export", export=True, optimizer=False, dtype=None, max_file=1 << 30,
        trusted=False, force=False, progress=lambda *_: None,
    )  # fmt: skip
    for start in (checkpoint, folder / "export", folder / "export" / "model.safetensors"):
        pairs = zip(started.parameters(), built(start).parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    with pytest.raises(RecipeError, match=r"another model: positions.weight is \(48, 16\) there"):
        built(checkpoint, context=24)
    with pytest.raises(RecipeError, match="cannot be read"):
        built(folder / "nothing")
    shard = next(checkpoint.glob("*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(RecipeError, match="cannot be read"):
        built(checkpoint)


def built(start: Path, **options: Any) -> byte_gpt.ByteGpt:
    recipe = load_recipe("byte-finetune")
    model = build_model(recipe, {**MODEL, **options, "init_from": str(start)})
    assert isinstance(model, byte_gpt.ByteGpt)
    return model
