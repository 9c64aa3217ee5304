"""What went wrong in a recipe while it was traced, as a sentence that its author can act on."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from torchdeck.recipes.errors import RecipeError, RecipeImportError


class TracingError(Exception):
    """The model cannot be traced; the message says why and what would help."""


class DataNeededError(TracingError):
    """What the recipe computes depends on the values in tensors, which a trace without memory lacks."""


_NEEDS_DATA = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)

_NO_VALUES = ("meta tensor", "FakeTensor", "fake tensor", "data is not allocated")
"""In messages of operations that asked such a tensor for its values."""

_GPU = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available",
        "CUDA driver initialization failed", "No HIP GPUs are available")  # fmt: skip


@contextmanager
def explained(what: str, recipe: str) -> Iterator[None]:
    """Turn what the recipe's own code raises into a TracingError with its line.

    Args:
        what: which of its functions runs, like `build_model(options)`.
        recipe: name or path of the recipe.
    """
    try:
        yield
    except (RecipeError, TracingError):
        raise
    except _NEEDS_DATA as error:
        raise DataNeededError(_sentence(error, what, recipe)) from error
    except SystemExit as error:
        place = _place(error, recipe)
        raise TracingError(
            f"{what} of recipe {recipe} ends the process (exit code {error.code}){place}: let it return, or "
            "raise an exception"
        ) from error
    except Exception as error:
        kind = DataNeededError if _lacks_values(error) else TracingError
        raise kind(_sentence(error, what, recipe)) from error


def explain(error: BaseException, recipe: str) -> str:
    """One sentence about any error that came out of a trace."""
    if isinstance(error, RecipeImportError) and error.__cause__ is not None:
        return f"{error}{_place(error.__cause__, recipe)}"
    if isinstance(error, (RecipeError, TracingError)):
        return str(error)
    return _sentence(error, "tracing", recipe)


def _sentence(error: BaseException, what: str, recipe: str) -> str:
    text = str(error).strip()
    if any(words in text for words in _GPU):
        return (
            f"{what} of recipe {recipe} needs a GPU{_place(error, recipe)}: build the model on the CPU, "
            "without .cuda() or device=..., and Torchdeck moves it to each rank's device"
        )
    message = f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
    return f"{what} of recipe {recipe} raised {message}{_place(error, recipe)}"


def _lacks_values(error: Exception) -> bool:
    """Whether `error` says that a tensor without memory was asked for values."""
    return any(words in str(error) for words in _NO_VALUES)


def _place(error: BaseException, recipe: str) -> str:
    """Where it was raised, in the recipe's folder if any of its code took part."""
    frames: list[traceback.FrameSummary] = list(traceback.extract_tb(error.__traceback__))
    folder = str(Path(recipe).resolve().parent) if recipe.endswith(".py") else None
    if folder is not None:
        own = [frame for frame in frames if str(Path(frame.filename).resolve()).startswith(folder + "/")]
        frames = own or frames
    if not frames:
        return ""
    last = frames[-1]
    line = f": `{last.line}`" if last.line else ""
    return f" (in {Path(last.filename).name}, line {last.lineno}{line})"
