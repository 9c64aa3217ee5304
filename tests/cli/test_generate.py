"""`torchdeck generate`: a real run's model answers, from its run, checkpoint, export, and bare weights."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from support.agents.controlled_run import nothing_left
from support.cli.command import Command
from support.cli.command_here import CommandHere
from torchdeck.contract.layout import RunLayout
from torchdeck.recipes import bdh, byte_finetune, byte_gpt
from torchdeck.use_cases.generation.trained_model import GenerateError, model_of_file

RUN = """
name = "tiny"
[run]
recipe = "byte-gpt"
[model]
layers = 1
heads = 2
width = 8
context = 16
[data]
source = "text.txt"
heldout = 0
[training]
steps = 2
microbatch = 2
[distributed]
nproc = 1
backend = "gloo"
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CommandHere, Path, Path]]:
    """The command line, the run file, and the checkpoint of its finished run."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text("to be or not to be, that is the question. " * 20)
    (folder / "run.toml").write_text(RUN)
    home = folder / "home"
    with nothing_left(home):
        done = Command(home).run("--no-gui", folder / "run.toml", timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = (home / "runs").iterdir()
        yield CommandHere(home), folder / "run.toml", RunLayout(run).checkpoints / "final"


@pytest.mark.soak  # the other tests here answer from single sources
@pytest.mark.processes
def test_all_sources_of_one_model_answer_alike(
    trained: tuple[CommandHere, Path, Path], tmp_path: Path
) -> None:
    """By a seed; the answer alone is on standard output, and it is what `model.generate` gives."""
    command, run_file, checkpoint = trained
    export = tmp_path / "export"
    assert command.run("ckpt", "export", "tiny", "-o", export).returncode == 0
    weights = Path(shutil.copy(export / "model.safetensors", tmp_path / "weights.safetensors"))
    options = ("--prompt", "to be", "--seed", "4", "--max-tokens", "12", "--top-k", "20")
    found = [
        command.json("generate", *source, *options)
        for source in (
            ("tiny",),
            (checkpoint,),
            (export,),
            (export, "--run", "tiny"),
            (weights, "--run", run_file),
        )
    ]
    assert len({row["answer"] for row in found}) == 1
    assert {row["tokens"] for row in found} == {12}
    assert not any(row["unread"] or row["ended"] for row in found)
    shown = command.run("generate", "tiny", "final", *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == found[0]["answer"] + "\n"
    from torchdeck.distributed.recipe_loading import load_recipe
    from torchdeck.distributed.trainer.setup import build_model

    sizes = {"layers": 1, "heads": 2, "width": 8, "context": 16}
    model = build_model(load_recipe("byte-gpt"), {**sizes, "init_from": str(weights)})
    assert isinstance(model, byte_gpt.ByteGpt)
    answer = bytes(model.generate("to be", seed=4, max_tokens=12, top_k=20)).decode(errors="replace")
    assert answer == found[0]["answer"]


@pytest.mark.processes
def test_what_cannot_answer_is_refused(trained: tuple[CommandHere, Path, Path], tmp_path: Path) -> None:
    """A file whose sizes no run tells, another model's, and a prompt without a beginning."""
    command, run_file, checkpoint = trained
    moved = Path(shutil.copytree(checkpoint, tmp_path / "moved"))
    manifest = json.loads((moved / "manifest.json").read_text())
    (moved / "manifest.json").write_text(json.dumps({**manifest, "run_id": "elsewhere"}))
    for arguments, code, said in (
        ((moved, "--prompt", "a"), 1, "name its run file with --run"),
        (("tiny", "--prompt", ""), 1, "the prompt is empty"),
        (("tiny", "--prompt", "a", "--ema"), 1, "has no moving average of the weights"),
        (("tiny", "7", "--prompt", "a"), 2, "there is no checkpoint step_00000007"),
        (("tiny", "--prompt", "a", "--temperature", "-1"), 2, "--temperature is -1"),
        (("tiny", "--prompt", "a", "--top-k", "0"), 2, "--top-k is 0"),
    ):
        done = command.run("generate", *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr
    other = tmp_path / "other.toml"
    other.write_text(run_file.read_text().replace("width = 8", "width = 16"))
    done = command.run("generate", checkpoint, "--run", other, "--prompt", "a")
    assert done.returncode == 1
    assert "is of another model: " in done.stderr


@pytest.mark.processes
def test_other_recipes_answer_from_a_pt_file(tmp_path: Path) -> None:
    """A bdh under the names of its authors' program; a byte-finetune that ends its answer at once."""
    command, run_file, weights = CommandHere(tmp_path), tmp_path / "run.toml", tmp_path / "weights.pt"
    torch.manual_seed(1)
    model = bdh.build_model({"layers": 2, "heads": 2, "width": 8, "neurons": 32})
    own = {name: tensor.mul_(20) for name, tensor in model.state_dict().items()}
    there = ("embed.weight", "encoder", "encoder_v", "decoder", "lm_head")
    here = ("embedding.weight", "decoder_x", "decoder_y", "encoder", "readout")
    torch.save({name: own[ours] for name, ours in zip(there, here, strict=True)}, weights)
    table = "[model]\nlayers = 2\nheads = 2\nwidth = 8\n"
    run_file.write_text(f'[run]\nrecipe = "bdh"\n{table}neurons = 32\n[training]\nsteps = 1\n')
    options = ("--run", run_file, "--prompt", "to be", "--temperature", "0", "--max-tokens", "9")
    row = command.json("generate", weights, *options)
    expected = bytes(model.generate("to be", temperature=0, max_tokens=9))
    assert row["answer"] == expected.decode(errors="replace")
    ending = byte_finetune.build_model({"layers": 2, "heads": 2, "width": 8})
    with torch.no_grad():
        ending.norm.weight.zero_()
        ending.norm.bias.fill_(1)
        ending.head.weight.zero_()[byte_finetune.END] = 1
    torch.save(ending.state_dict(), weights)
    run_file.write_text(f'[run]\nrecipe = "byte-finetune"\n{table}[training]\nsteps = 1\n')
    row = command.json("generate", weights, *options)
    assert (row["answer"], row["tokens"], row["ended"]) == ("", 0, True)


def test_a_model_without_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[run]\nrecipe = "digits"\n[training]\nsteps = 1\n')
    with pytest.raises(GenerateError, match=r'recipe "digits" .*byte-gpt, byte-finetune, bdh'):
        model_of_file(path)
    path.write_text('[run]\nscript = "a.py"\n')
    with pytest.raises(GenerateError, match="is not of a recipe"):
        model_of_file(path)
