"""How known programs continue, from their names, sources, arguments, config files and checkpoints.

Standard library, Python 3.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.plan.slots import slot
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind
from torchdeck.trainers.resume import AGAIN, INSIDE, ResumeBy, ResumeRule, written


class Program(NamedTuple):
    """A program as the run file names it."""

    module: str = ""
    """Empty: it is a script."""
    script: str = ""
    """File name."""
    source: str = ""
    """Text of the script; empty if unknown."""
    arguments: tuple[str, ...] = ()
    inside: bool = False
    """Callbacks are added inside its trainer."""
    settings: Mapping[str, str] = {}
    """Name → value, in its arguments and in the config files that they name."""


def _by(*arguments: str) -> ResumeRule:
    return ResumeRule(ResumeBy.ARGUMENTS, arguments)


_PATH = slot("checkpoint")
_HF_FLAG = _by("--resume_from_checkpoint", _PATH)
_AXOLOTL_FLAG = _by("--resume-from-checkpoint", _PATH)
_LLAMAFACTORY_KEY = _by(f"resume_from_checkpoint={_PATH}")
_LIGHTNING_FLAG = _by("--ckpt_path", _PATH)
_VERL_KEYS = _by("trainer.resume_mode=resume_path", f"trainer.resume_from_path={_PATH}")
_NANOGPT_FLAG = _by("--init_from=resume")

_OWN = re.compile(r"TORCHDECK_RESUME|find_latest_checkpoint")
_HF_PARSER = re.compile(r"\b(?:HfArgumentParser|TrlParser)\b")
_HF_ARGPARSE = re.compile(r"add_argument\(\s*['\"]--resume_from_checkpoint['\"]")
_ONE_CONFIG = re.compile(r"len\(\s*sys\.argv\s*\)\s*==\s*2")
"""A program that reads its arguments from a file only if that is its one argument."""
_NANOGPT = re.compile(r"init_from\s*==\s*['\"]resume['\"]")
_SNAPSHOT = re.compile(r"os\.path\.exists\(\s*(?:self\.)?snapshot_path|snapshot_path\)?\.exists\(")
_INSIDE = re.compile(
    r"^\s*(?:from|import)\s+(?:transformers|trl|lightning|pytorch_lightning)\b", re.MULTILINE
)
_LIGHTNING_CLI = re.compile(r"\bLightningCLI\(")
_LIGHTNING_NO_RUN = re.compile(r"\brun\s*=\s*False\b")
_LLAMAFACTORY = re.compile(r"\bllamafactory\.train\.tuner\b")
_CONFIGS = (".yaml", ".yml", ".json")
_TRUE = frozenset(("true", "1", "yes", "on"))
_SWIFT_VERBS = frozenset(("sft", "pt", "rlhf"))
_NEVER_RESUMED_STAGES = frozenset(("rm", "ppo"))
"""Stages of LLaMA-Factory that drop resume_from_checkpoint with a warning."""
_LOAD_STEP = re.compile(r"--checkpoint\.load[_-]step[= ](?!-1(?: |$))")
"""A step of its own that torchtitan begins at."""
_MEGATRON_WEIGHTS_ONLY = ("--finetune", "--no-load-optim")
"""With these --load begins at iteration 0, or without the optimizer."""
_INSIDE_KINDS = frozenset({CheckpointKind.HUGGING_FACE, CheckpointKind.LIGHTNING})
"""Kinds of checkpoints that the callbacks inside trainers resume from."""


def rule_of_program(program: Program) -> ResumeRule | None:
    """Return how a program continues, from its name, its source and its arguments; None if unknown."""
    given = _value_of(program.arguments, "--resume_from_checkpoint") or _value_of(
        program.arguments, "--ckpt_path"
    )
    if given in ("latest", "last") or _value_of(program.arguments, "--init_from") == "resume":
        return AGAIN
    rule = _of_module(program) if program.module else _of_script(program)
    return None if rule is INSIDE and not program.inside else rule


def _of_module(program: Program) -> ResumeRule | None:
    module, arguments = program.module, program.arguments
    if module == "torchtitan.train":
        return _torchtitan(program)
    if module.startswith("verl.trainer."):
        return _verl(program)
    if module.startswith("trl.scripts."):
        return _HF_FLAG
    if module.startswith("axolotl.cli."):
        return _axolotl(program)
    if module.startswith("llamafactory."):
        return _llamafactory(program)
    if module.startswith("swift.cli."):
        verb = arguments[0] if module == "swift.cli.main" and arguments else module.rpartition(".")[2]
        return _HF_FLAG if verb in _SWIFT_VERBS else None
    return None


def _of_script(program: Program) -> ResumeRule | None:
    source = program.source
    if _OWN.search(source) or _SNAPSHOT.search(source):
        return AGAIN
    if _LLAMAFACTORY.search(source):
        return _llamafactory(program)
    if _HF_ARGPARSE.search(source) or (_HF_PARSER.search(source) and "resume_from_checkpoint" in source):
        is_config = len(program.arguments) == 1 and program.arguments[0].endswith(_CONFIGS)
        return INSIDE if is_config and _ONE_CONFIG.search(source) else _HF_FLAG
    if _NANOGPT.search(source) and "ckpt.pt" in source:
        return _NANOGPT_FLAG
    if Path(program.script).name.startswith("pretrain_") and "megatron" in source:
        return _megatron(program.arguments)
    if _LIGHTNING_CLI.search(source) and not _LIGHTNING_NO_RUN.search(source):
        return _LIGHTNING_FLAG
    return INSIDE if _INSIDE.search(source) else None


def _axolotl(program: Program) -> ResumeRule | None:
    """A key of its YAML, or any key of it as a flag."""
    settings = program.settings
    if settings.get("auto_resume_from_checkpoints", "").lower() in _TRUE:
        return AGAIN
    if program.module == "axolotl.cli.train":
        # fire takes either spelling; a strict config takes only keys that it has
        is_known = settings.get("strict", "").lower() not in _TRUE or "resume_from_checkpoint" in settings
        return _HF_FLAG if is_known else INSIDE
    is_train = program.module == "axolotl.cli.main" and program.arguments[:1] == ("train",)
    return _AXOLOTL_FLAG if is_train and "--" not in program.arguments else None


def _llamafactory(program: Program) -> ResumeRule | None:
    """`key=value` after a config file, else a flag. Without it, `overwrite_output_dir` decides."""
    if program.settings.get("stage", "").lower() in _NEVER_RESUMED_STAGES:
        return None
    has_config = any(word.endswith(_CONFIGS) for word in program.arguments[:2])
    return _LLAMAFACTORY_KEY if has_config else _HF_FLAG


def _torchtitan(program: Program) -> ResumeRule | None:
    """It takes the newest, unless it is told a step."""
    return None if _LOAD_STEP.search(" ".join(program.arguments)) else AGAIN


def _verl(program: Program) -> ResumeRule | None:
    mode = program.settings.get("trainer.resume_mode", "auto")
    return AGAIN if mode == "auto" else _VERL_KEYS


def rule_of_checkpoint(
    kind: CheckpointKind, command: Sequence[str], *, inside: bool = False
) -> ResumeRule | None:
    """Return how the program that wrote a checkpoint continues from it; None if unknown.

    Args:
        kind: of the checkpoint.
        command: of each rank.
        inside: callbacks are added inside its trainer.
    """
    if kind in (CheckpointKind.TORCHTITAN, CheckpointKind.VERL, CheckpointKind.SNAPSHOT):
        return None if _LOAD_STEP.search(" ".join(command)) else AGAIN
    if kind is CheckpointKind.MEGATRON:
        return _megatron(command)
    return INSIDE if inside and kind in _INSIDE_KINDS else None


def _megatron(arguments: Sequence[str]) -> ResumeRule | None:
    """`--load DIR` reads the newest in DIR, and starts over if there is none."""
    save, load = _value_of(arguments, "--save"), _value_of(arguments, "--load")
    if not save or any(flag in arguments for flag in _MEGATRON_WEIGHTS_ONLY):
        return None
    return AGAIN if load == save else ResumeRule(ResumeBy.ARGUMENTS, ("--load", written(save)))


def _value_of(arguments: Sequence[str], flag: str) -> str:
    """Return the value of a flag, the last if it is repeated; empty without one."""
    found = ""
    for at, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            found = word.partition("=")[2]
        elif word == flag and at + 1 < len(arguments):
            found = arguments[at + 1]
    return found
