"""How programs continue from their checkpoints, as their names, sources and arguments show."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.plan.slots import fill
from torchdeck.launching.prepare import how_it_resumes
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.resume import AGAIN, INSIDE, ResumeRule, written
from torchdeck.trainers.resume_rules import Program, rule_of_checkpoint, rule_of_program

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
        Program(
            script="pretrain_gpt.py",
            source="megatron",
            arguments=("--load=/x", "--save", "/w", "--load", "/w"),
        ),
    ],
)
def test_some_look_for_their_newest_checkpoint_at_every_start(program: Program) -> None:
    assert rule_of_program(program) is AGAIN


HF_FLAG = ["--resume_from_checkpoint", "/out/c-1"]
LIGHTNING_BY_HAND = "from lightning.pytorch.cli import LightningCLI\ncli = LightningCLI(run=False)\n"
ONE_CONFIG = HF_SCRIPT + "if len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n"
LLAMAFACTORY = "from llamafactory.train.tuner import run_exp\nrun_exp()\n"
WITH_KEY = ["resume_from_checkpoint=/out/c-1"]
VERL_KEYS = ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/out/c-1"]


@pytest.mark.parametrize(
    ("command", "config", "expected"),
    [
        (["axolotl.cli.train", "x.yaml"], "", HF_FLAG),
        (["axolotl.cli.train", "x.yaml"], "resume_from_checkpoint: out/checkpoint-1\n", HF_FLAG),
        (["axolotl.cli.train", "x.yaml"], "auto_resume_from_checkpoints: true\n", "again"),
        (["axolotl.cli.train", "x.yaml"], "auto_resume_from_checkpoints: false\n", HF_FLAG),
        (["axolotl.cli.train", "x.yaml"], "strict: true\n", "inside"),
        (["axolotl.cli.train", "x.yaml"], "strict: true\nresume_from_checkpoint: a\n", HF_FLAG),
        (["axolotl.cli.main", "train", "x.yaml"], "", ["--resume-from-checkpoint", "/out/c-1"]),
        (["axolotl.cli.main", "train", "x.yaml", "--", "--nproc-per-node=2"], "", None),
        (["axolotl.cli.main", "preprocess", "x.yaml"], "", None),
        (["llamafactory.cli", "train", "x.yaml"], "stage: sft\noverwrite_output_dir: true\n", WITH_KEY),
        (["llamafactory.launcher", "x.yaml", "learning_rate=1e-5"], "stage: sft\n", WITH_KEY),
        (["llamafactory.launcher", "--stage", "sft"], "", HF_FLAG),
        (["llamafactory.launcher", "x.yaml"], "stage: ppo\n", None),
        (["llamafactory.launcher", "x.yaml", "stage=rm"], "stage: sft\n", None),
        (["swift.cli.sft", "--model", "m"], "", HF_FLAG),
        (["swift.cli.main", "rlhf", "x.yaml"], "", HF_FLAG),
        (["swift.cli.main", "infer"], "", None),
        (["verl.trainer.main_ppo", "trainer.nnodes=1"], "", "again"),
        (["verl.trainer.main_ppo", "trainer.resume_mode=disable"], "", VERL_KEYS),
        (["torchtitan.train", "--checkpoint.enable"], "", "again"),
        (["torchtitan.train", "--checkpoint.load_step", "-1"], "", "again"),
        (["torchtitan.train", "--checkpoint.load-step=500"], "", None),
        (["trl.scripts.sft", "--config", "x.yaml"], "", HF_FLAG),
        (["train.py", DIFFUSERS, "--resume_from_checkpoint", "latest"], "", "again"),
        (["train.py", DIFFUSERS, "--resume_from_checkpoint", "True"], "", HF_FLAG),
        (["run_clm.py", ONE_CONFIG, "x.json"], "", "inside"),
        (["run_clm.py", ONE_CONFIG, "x.json", "--seed=1"], "", HF_FLAG),
        (["src/train.py", LLAMAFACTORY, "x.yaml"], "stage: sft\n", WITH_KEY),
        (["main.py", "LightningCLI(Model)", "fit"], "", ["--ckpt_path", "/out/c-1"]),
        (
            ["main.py", "from lightning.pytorch.cli import LightningCLI\nLightningCLI(run=False)"],
            "",
            "inside",
        ),
        (["train.py", NANOGPT, "--init_from=resume"], "", "again"),
        (["pretrain_gpt.py", "import megatron", "--save", "/w", "--load", "/other"], "", ["--load", "/w"]),
        (["pretrain_gpt.py", "import megatron", "--save", "/w", "--load", "/base", "--finetune"], "", None),
        (["pretrain_gpt.py", "import megatron"], "", None),
        (["train.py", "import deepspeed\nengine.load_checkpoint(args.load)\n"], "", None),
    ],
)
def test_commands_and_config_files_of_known_programs(
    tmp_path: Path, command: list[str], config: str, expected: list[str] | str | None
) -> None:
    """As their packages read them; by what is in a run file."""
    for name in ("x.yaml", "x.json"):
        (tmp_path / name).write_text(config)
    first, *words = command
    run: dict[str, object] = {"module": first, "args": words, "working_dir": str(tmp_path)}
    if first.endswith(".py"):
        script = tmp_path / first
        script.parent.mkdir(exist_ok=True)
        script.write_text(words[0])
        run = {"script": str(script), "args": words[1:], "working_dir": str(tmp_path)}
    rule = how_it_resumes(config_from_dict({"run": run}, tmp_path))
    if isinstance(expected, list):
        assert arguments(rule) == expected
    else:
        assert (None if rule is None else rule.by.value) == expected


def test_a_checkpoint_of_torchtitan_does_not_tell_more_than_its_command() -> None:
    command = ("python", "-m", "torchtitan.train", "--checkpoint.load_step", "500")
    assert rule_of_checkpoint(CheckpointKind.TORCHTITAN, command) is None


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("trl/scripts/sft.py", "trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)"),
        ("trl/scripts/dpo.py", "trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)"),
        ("lightning/pytorch/cli.py", '"fit": {"model", "train_dataloaders"'),
        ("transformers/training_args.py", "resume_from_checkpoint: str | None"),
    ],
)
def test_the_installed_packages_still_read_it_so(file: str, text: str) -> None:
    python = trainers_python()
    if python is None:
        pytest.skip(ABSENT)
    found = list(Path(python).parents[1].glob(f"lib/python3*/site-packages/{file}"))
    assert found, file
    assert text in found[0].read_text()


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
