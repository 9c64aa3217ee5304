"""What went wrong in a recipe while it was traced, as a sentence that its author can act on."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchdeck.recipes.errors import RecipeError, RecipeImportError
from torchdeck.tracing.no_gpu import GpuNeededError


class TracingError(Exception):
    """The model cannot be traced; the message says why and what would help."""


class ValuesNeededError(TracingError):
    """What the recipe computes depends on values in tensors, and a trace without memory has none."""


_FAKE_TENSORS = ("torch._subclasses", "torch.fx.experimental.symbolic_shapes")
"""Modules whose exceptions say what tensors without memory cannot do."""
_NO_VALUES = ("meta tensor", "faketensor", "fake tensor", "data is not allocated", "tensor subclass")
"""In messages about operations that asked such a tensor for its values."""
_NO_GPU = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available",
           "not linked with support for cuda", "CUDA driver initialization failed",
           "Cannot access accelerator device when none is available")  # fmt: skip
_SPARSE = "Cannot access storage of SparseTensorImpl"
_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory")


@contextmanager
def explained(what: str, recipe: str) -> Iterator[None]:
    """Turn what the recipe's own code raises into a TracingError that names its line.

    Args:
        what: which of its functions runs, like `build_model(options)`.
        recipe: name or path of the recipe.
    """
    try:
        yield
    except (RecipeError, TracingError):
        raise
    except SystemExit as error:
        raise TracingError(
            f"{what} of recipe {recipe} ends the process (exit code {error.code}){_place(error, recipe)}: "
            "let it return, or raise an exception"
        ) from error
    except Exception as error:
        kind = ValuesNeededError if any(map(_lacks_values, _chain(error))) else TracingError
        raise kind(_sentence(error, what, recipe)) from error


def import_sentence(error: RecipeError, recipe: str) -> str:
    """The message of an error of loading a recipe, with the line that raised where there is one."""
    if isinstance(error, RecipeImportError) and error.__cause__ is not None:
        return f"{error}{_place(error.__cause__, recipe)}"
    return str(error)


def _sentence(error: Exception, what: str, recipe: str) -> str:
    if any(map(_lacks_gpu, _chain(error))):
        return (
            f"{what} of recipe {recipe} needs a GPU{_place(error, recipe)}: use the CPU, without .cuda() or "
            'device="cuda"; Torchdeck moves model and batches to each rank\'s device'
        )
    text = str(error).strip()
    if _SPARSE in text:
        return (
            f"{what} of recipe {recipe} makes sparse tensors, whose memory cannot be predicted: use dense "
            "gradients (sparse=False)"
        )
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        return f"{what} of recipe {recipe} needs more memory than may be used here{_place(error, recipe)}"
    message = f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
    return f"{what} of recipe {recipe} raised {message}{_place(error, recipe)}"


def _chain(error: BaseException) -> list[BaseException]:
    """`error` and what led to it."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in found:
        found.append(following)
        following = following.__cause__ or following.__context__
    return found


def _lacks_values(error: BaseException) -> bool:
    text = str(error).lower()
    return type(error).__module__.startswith(_FAKE_TENSORS) or any(words in text for words in _NO_VALUES)


def _lacks_gpu(error: BaseException) -> bool:
    return isinstance(error, GpuNeededError) or any(words in str(error) for words in _NO_GPU)


def _place(error: BaseException, recipe: str) -> str:
    """Where it was raised: the last line in the recipe's folder, else the last of all."""
    frames: list[traceback.FrameSummary] = list(traceback.extract_tb(error.__traceback__))
    if recipe.endswith(".py"):
        folder = f"{Path(recipe).resolve().parent}/"
        frames = [frame for frame in frames if str(Path(frame.filename).resolve()).startswith(folder)]
    if not frames:
        return ""
    last = frames[-1]
    line = f": `{last.line}`" if last.line else ""
    return f" ({Path(last.filename).name}, line {last.lineno}{line})"
