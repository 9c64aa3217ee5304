"""How programs continue from their checkpoints, as their names, sources and arguments show."""

from __future__ import annotations

import pytest

from torchdeck.contract.plan.slots import fill
from torchdeck.trainers.checkpoints.kinds import CheckpointKind
from torchdeck.trainers.resume import (
    AGAIN,
    INSIDE,
    Program,
    ResumeRule,
    rule_of_checkpoint,
    rule_of_program,
    written,
)

NANOGPT = "if init_from == 'resume':\n    ckpt_path = os.path.join(out_dir, 'ckpt.pt')\n"
SNAPSHOT = "if os.path.exists(snapshot_path):\n    self._load_snapshot(snapshot_path)\n"
HF_SCRIPT = (
    "from transformers import HfArgumentParser, Trainer\n"
    "trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)\n"
)
DIFFUSERS = 'parser.add_argument(\n    "--resume_from_checkpoint",\n    type=str,\n)\n'
PLAIN_TRAINER = "from transformers import Trainer\nTrainer(model).train()\n"


def arguments(rule: ResumeRule | None) -> list[str]:
    assert rule is not None
    return [fill(argument, {"checkpoint": "/out/c-1"}) for argument in rule.arguments]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (Program(script="train.py", source=NANOGPT), ["--init_from=resume"]),
        (Program(script="run_clm.py", source=HF_SCRIPT), ["--resume_from_checkpoint", "/out/c-1"]),
        (Program(script="train_lora.py", source=DIFFUSERS), ["--resume_from_checkpoint", "/out/c-1"]),
        (Program(module="trl.scripts.sft"), ["--resume_from_checkpoint", "/out/c-1"]),
        (Program(script="main.py", source="LightningCLI(Model)"), ["--ckpt_path", "/out/c-1"]),
        (
            Program(script="pretrain_gpt.py", source="import megatron", arguments=("--save", "/w/@{x}")),
            ["--load", "/w/@{x}"],
        ),
    ],
)
def test_the_arguments_of_known_trainers(program: Program, expected: list[str]) -> None:
    assert arguments(rule_of_program(program)) == expected


@pytest.mark.parametrize(
    "program",
    [
        Program(script="multinode.py", source=SNAPSHOT),
        Program(module="torchtitan.train"),
        Program(module="verl.trainer.sft_trainer"),
        Program(script="train.py", source=DIFFUSERS, arguments=("--resume_from_checkpoint=latest",)),
        Program(script="train.py", source='path = os.environ["TORCHDECK_RESUME"]'),
        Program(script="pretrain_gpt.py", source="megatron", arguments=("--save", "/w", "--load", "/w")),
    ],
)
def test_some_look_for_their_newest_checkpoint_at_every_start(program: Program) -> None:
    assert rule_of_program(program) is AGAIN


def test_trainers_without_a_flag_continue_by_what_runs_inside_them() -> None:
    assert rule_of_program(Program(script="train.py", source=PLAIN_TRAINER, inside=True)) is INSIDE
    assert rule_of_program(Program(script="train.py", source=PLAIN_TRAINER)) is None


@pytest.mark.parametrize("source", ["", "import torch\nparser.add_argument('--resume')\n"])
def test_nothing_is_guessed(source: str) -> None:
    assert rule_of_program(Program(script="train.py", source=source, inside=True)) is None


def test_the_kind_of_a_checkpoint_tells_too() -> None:
    assert rule_of_checkpoint(CheckpointKind.TORCHTITAN, ()) is AGAIN
    assert rule_of_checkpoint(CheckpointKind.HUGGING_FACE, (), inside=True) is INSIDE
    assert rule_of_checkpoint(CheckpointKind.HUGGING_FACE, ()) is None
    assert rule_of_checkpoint(CheckpointKind.NANOGPT, (), inside=True) is None
    assert arguments(rule_of_checkpoint(CheckpointKind.MEGATRON, ("x", "--save", "/w"))) == ["--load", "/w"]


def test_only_the_checkpoint_is_a_slot_in_a_users_argument() -> None:
    assert fill(written("--a=@{checkpoint}:@{port}:@@{x}"), {"checkpoint": "P"}) == "--a=P:@{port}:@@{x}"
