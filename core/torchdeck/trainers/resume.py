"""How a program continues from its own checkpoint: known of trainers, and never guessed.

Standard library, Python 3.10.
"""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.plan.slots import escape, slot
from torchdeck.contract.refusal import Refusal
from torchdeck.contract.run_states import TextEnum

RESUME_VARIABLE = "TORCHDECK_RESUME"
"""Variable with the checkpoint to continue from; the callbacks inside trainers read it, and scripts may."""


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

    @property
    def names_checkpoint(self) -> bool:
        """It continues from the checkpoint that it is given, not from the newest that it finds."""
        if self.by is not ResumeBy.ARGUMENTS:
            return self.by is ResumeBy.INSIDE
        return any(slot("checkpoint") in argument for argument in self.arguments)


AGAIN = ResumeRule(ResumeBy.AGAIN)
INSIDE = ResumeRule(ResumeBy.INSIDE)


def written(text: str) -> str:
    """Return an argument of the user's as a plan has it: only `@{checkpoint}` in it is a slot."""
    own = slot("checkpoint")
    return escape(text).replace(escape(own), own)
