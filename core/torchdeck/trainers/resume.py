"""How a program continues from its own checkpoint: known of trainers, and never guessed.

Standard library, Python 3.10.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.plan.slots import escape, slot
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.run_states import TextEnum
from torchdeck.trainers.checkpoints.kinds import CheckpointKind

RESUME_VARIABLE = "TORCHDECK_RESUME"
"""Variable with the checkpoint to continue from; the callbacks inside trainers read it, and scripts may."""


SEVERAL_NODES = "on several nodes a script continues only if it looks for its newest checkpoint by itself"


class UnknownResumeError(Refusal):
    """It is not known how a script continues from its checkpoint.

    Attributes:
        program: the script or module.
    """

    page = "checkpoints#resume"

    def __init__(self, run_id: str, program: str) -> None:
        super().__init__(
            f"how {program} continues from its checkpoint is not known",
            fix=f"`torchdeck runs resume {run_id} -- ARGS` gives the arguments with which it does; "
            "@{checkpoint} in them stands for the checkpoint's path, and run.resume_args keeps them",
        )
        self.program = program


class ResumeBy(TextEnum):
    """Cause of its continuing."""

    ARGUMENTS = "arguments"
    AGAIN = "again"
    """It looks for its newest checkpoint at every start."""
    INSIDE = "inside"
    """The callbacks added inside its trainer."""


class ResumeRule(NamedTuple):
    """How a program continues."""

    by: ResumeBy
    arguments: tuple[str, ...] = ()
    """Appended to its command; with the slot `checkpoint`, user text escaped."""


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


AGAIN = ResumeRule(ResumeBy.AGAIN)
INSIDE = ResumeRule(ResumeBy.INSIDE)
_HF_FLAG = ResumeRule(ResumeBy.ARGUMENTS, ("--resume_from_checkpoint", slot("checkpoint")))
_LIGHTNING_FLAG = ResumeRule(ResumeBy.ARGUMENTS, ("--ckpt_path", slot("checkpoint")))
_NANOGPT_FLAG = ResumeRule(ResumeBy.ARGUMENTS, ("--init_from=resume",))

_OWN = re.compile(r"TORCHDECK_RESUME|find_latest_checkpoint")
_HF_PARSER = re.compile(r"\b(?:HfArgumentParser|TrlParser)\b")
_HF_ARGPARSE = re.compile(r"add_argument\(\s*['\"]--resume_from_checkpoint['\"]")
_NANOGPT = re.compile(r"init_from\s*==\s*['\"]resume['\"]")
_SNAPSHOT = re.compile(r"os\.path\.exists\(\s*(?:self\.)?snapshot_path|snapshot_path\)?\.exists\(")
_INSIDE = re.compile(
    r"^\s*(?:from|import)\s+(?:transformers|trl|lightning|pytorch_lightning)\b", re.MULTILINE
)
_AGAIN_MODULES = ("torchtitan.train", "verl.trainer.")
_HF_FLAG_MODULES = ("trl.scripts.",)
_INSIDE_KINDS = frozenset({CheckpointKind.HUGGING_FACE, CheckpointKind.LIGHTNING})
"""Kinds of checkpoints that the callbacks inside trainers resume from."""
_INSIDE_MODULES = ("axolotl.cli.", "llamafactory.", "swift.cli.")


def rule_of_program(program: Program) -> ResumeRule | None:
    """Return how a program continues, from its name, its source and its arguments; None if unknown."""
    given = _value_of(program.arguments, "--resume_from_checkpoint") or _value_of(
        program.arguments, "--ckpt_path"
    )
    if given in ("latest", "last", "True") or "--init_from=resume" in program.arguments:
        return AGAIN
    rule = _of_module(program) if program.module else _of_script(program)
    return None if rule is INSIDE and not program.inside else rule


def _of_module(program: Program) -> ResumeRule | None:
    if program.module.startswith(_AGAIN_MODULES):
        return AGAIN
    if program.module.startswith(_HF_FLAG_MODULES):
        return _HF_FLAG
    return INSIDE if program.module.startswith(_INSIDE_MODULES) else None


def _of_script(program: Program) -> ResumeRule | None:
    source = program.source
    if _OWN.search(source) or _SNAPSHOT.search(source):
        return AGAIN
    if _HF_ARGPARSE.search(source) or (_HF_PARSER.search(source) and "resume_from_checkpoint" in source):
        return _HF_FLAG
    if _NANOGPT.search(source) and "ckpt.pt" in source:
        return _NANOGPT_FLAG
    if Path(program.script).name.startswith("pretrain_") and "megatron" in source:
        return _megatron(program.arguments)
    if "LightningCLI(" in source:
        return _LIGHTNING_FLAG
    return INSIDE if _INSIDE.search(source) else None


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
        return AGAIN
    if kind is CheckpointKind.MEGATRON:
        return _megatron(command)
    return INSIDE if inside and kind in _INSIDE_KINDS else None


def _megatron(arguments: Sequence[str]) -> ResumeRule | None:
    """`--load DIR` reads the newest in DIR, and begins afresh if there is none."""
    save, load = _value_of(arguments, "--save"), _value_of(arguments, "--load")
    if not save:
        return None
    return AGAIN if load == save else ResumeRule(ResumeBy.ARGUMENTS, ("--load", written(save)))


def _value_of(arguments: Sequence[str], flag: str) -> str:
    for at, word in enumerate(arguments):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag and at + 1 < len(arguments):
            return arguments[at + 1]
    return ""


def written(text: str) -> str:
    """Return an argument of the user's as a plan has it: only `@{checkpoint}` in it is a slot."""
    own = slot("checkpoint")
    return escape(text).replace(escape(own), own)
