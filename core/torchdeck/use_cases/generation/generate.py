"""The answer of a trained model to a prompt, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torchdeck.recipes.generation.request import Sampling, TextRequest
from torchdeck.use_cases.generation.trained_model import GenerateError, TrainedModel
from torchdeck.use_cases.torch_process import SILENCE, TorchProcessError, ask_torch

__all__ = ["Answered", "GenerateError", "Sampling", "generate"]

_TOOL = "torchdeck.recipes.generating_tool"


@dataclass(frozen=True)
class Answered:
    """Result of an answer, besides its text."""

    tokens: int
    seconds: float
    """Time of writing, without the start of the process and the loading."""
    ended: bool
    """Whether the model ended it by itself."""
    unread: int
    """Bytes at the prompt's beginning that are too far back for the model."""


def generate(
    source: Path,
    model: TrainedModel,
    prompt: str,
    sampling: Sampling,
    *,
    interpreter: str,
    text: Callable[[str], None],
    progress: Callable[[str, int, int], None] = lambda *_: None,
    ema: bool = False,
    silence: float = SILENCE,
) -> Answered:
    """Let a model continue `prompt`, in a process that has torch, on the CPU.

    Args:
        source: checkpoint, export or file of weights, on this machine.
        model: the model that it is of.
        prompt: at least one character.
        sampling: how tokens are chosen.
        interpreter: one that has torch.
        text: called with each piece of the answer; an exception from it or from `progress` ends the process
            and is raised here.
        progress: called with the current work, the amount done, and the total (0: unknown).
        ema: use the moving average of the weights.
        silence: seconds without output until the process counts as hung.

    Raises:
        GenerateError: the weights cannot be read, are of another model, or the process fails.
    """
    if not prompt:
        raise GenerateError("the prompt is empty", fix="give at least one character to continue")
    request = TextRequest(str(source.absolute()), model.recipe, dict(model.options), prompt, sampling, ema)
    try:
        done = ask_torch(_TOOL, request.to_json(), interpreter, progress=progress, text=text, silence=silence)
        return Answered(done["tokens"], done["seconds"], done["ended"], done["unread"])
    except TorchProcessError as error:
        raise GenerateError(str(error)) from None
