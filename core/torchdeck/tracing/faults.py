"""Errors of a recipe during tracing, as sentences that its author can act on."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchdeck.distributed.recipe_loading import RecipeError, RecipeImportError


class TracingError(Exception):
    """The model cannot be traced; the message says why and how to fix it.

    `certain`: every rank would fail the same way, not only tracing.
    """

    def __init__(self, message: str, *, certain: bool = False) -> None:
        super().__init__(message)
        self.certain = certain


class ValuesNeededError(TracingError):
    """The recipe's computation depends on values in tensors, and a trace without memory has none."""


_FAKE_TENSORS = ("torch._subclasses", "torch.fx.experimental.symbolic_shapes")
"""Modules whose exceptions report limits of tensors without memory."""
_NO_VALUES = ("meta tensor", "faketensor", "fake tensor", "data is not allocated", "tensor subclass")
"""Parts of error messages about operations that need the values of such a tensor."""
_NO_GPU = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available",
           "not linked with support for cuda", "CUDA driver initialization failed",
           "Cannot access accelerator device when none is available")  # fmt: skip
_SPARSE = "Cannot access storage of SparseTensorImpl"
_UNLIKE_RANKS = (
    "cuda",
    "gpu",
    "nccl",
    "device",
    "rank",
    "world_size",
    "master_",
    "process group",
    "distributed",
)
"""Parts of messages and lines about features that only ranks have."""
_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory")


@contextmanager
def explained(what: str, recipe: str, *, as_in_ranks: bool = False) -> Iterator[None]:
    """Turn exceptions of the recipe's own code into a TracingError that names its line.

    Args:
        what: the function being run, like `build_model(options)`.
        recipe: name or path of the recipe.
        as_in_ranks: ranks call it with the same arguments, before anything else may fail.
    """
    try:
        yield
    except RecipeError as error:
        if not as_in_ranks or isinstance(error, RecipeImportError):
            raise
        raise TracingError(str(error), certain=True) from error
    except TracingError:
        raise
    except SystemExit as error:
        raise TracingError(
            f"{what} of recipe {recipe} ends the process (exit code {error.code}){_place(error, recipe)}: "
            "let it return, or raise an exception"
        ) from error
    except Exception as error:
        kind = ValuesNeededError if any(map(_lacks_values, _chain(error))) else TracingError
        certain = as_in_ranks and kind is TracingError and _fails_anywhere(error, recipe)
        raise kind(_sentence(error, what, recipe), certain=certain) from error


def import_fault(error: RecipeImportError, recipe: str) -> TracingError:
    """Return the error for a recipe file that raised while it was imported, with the line that did."""
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return TracingError(str(error))
    return TracingError(f"{error}{_place(cause, recipe)}", certain=_fails_anywhere(cause, recipe))


def _fails_anywhere(error: Exception, recipe: str) -> bool:
    """Return whether the recipe's own code raised, and no limit of tracing can be the cause.

    Files may be stored elsewhere than on the nodes. A GPU and the variables of a rank are missing here. An
    exception of torch about tensors without memory might not occur with others.
    """
    chain = _chain(error)
    if any(isinstance(one, (OSError, MemoryError, NotImplementedError)) for one in chain):
        return False
    said = " ".join([*map(str, chain), _place(error, recipe)]).lower()
    if any(words in said for words in _UNLIKE_RANKS) or any(map(_lacks_gpu, chain)):
        return False
    if isinstance(error, (SyntaxError, ImportError)):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and bool(_own_frames(frames[-1:], recipe))


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
    """Return `error` and its causes."""
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
    """Return where it was raised: the last line in the recipe's folder, else the last of all."""
    frames = _own_frames(traceback.extract_tb(error.__traceback__), recipe)
    if not frames:
        return ""
    last = frames[-1]
    line = f": `{last.line}`" if last.line else ""
    return f" ({Path(last.filename).name}, line {last.lineno}{line})"


def _own_frames(frames: Sequence[traceback.FrameSummary], recipe: str) -> list[traceback.FrameSummary]:
    """Return the frames in the recipe's folder; for a built-in recipe, all."""
    if not recipe.endswith(".py"):
        return list(frames)
    folder = f"{Path(recipe).resolve().parent}/"
    return [frame for frame in frames if str(Path(frame.filename).resolve()).startswith(folder)]


# Block GPU use while a model is traced: it would need a GPU, or abort the process if torch has no CUDA.


class GpuNeededError(RuntimeError):
    """A recipe requested a GPU itself."""


class WithoutGpu(TorchFunctionMode):
    """Mode in which a request for a CUDA device raises GpuNeededError at its own line."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda or _is_gpu(kwargs.get("device")) or any(map(_is_gpu, args)):
            raise GpuNeededError("asks for a CUDA device")
        return func(*args, **kwargs)


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))
