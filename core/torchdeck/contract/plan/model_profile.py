"""Needs of a model, found by tracing it once: tensors, units, each allocation of a forward and backward.

Python 3.10: the tracer writes it on a node, the planner reads it. numpy is imported when a trace is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PROFILE_VERSION = 1
ONE_UNIT = "the recipe has no function blocks(model), so all weights count as one FSDP unit"
NO_BLOCKS = "the recipe names no blocks, so there are none to compute again in backward"
"""Notes of a profile that matter only to some runs."""
ROOT = 0
"""Index of the root unit: everything that no other unit holds."""

ITEM_SIZES: Mapping[str, int] = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint8": 1, "bool": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
"""Bytes of one element by torch's name of the type."""


class ProfileFormatError(ValueError):
    """Not a valid profile, or one from another Torchdeck."""


class Event(IntEnum):
    """Kind of one point of a trace."""

    FORWARD_BEGIN = 1
    """Start of a unit's forward; `value` is unused in markers."""
    FORWARD_END = 2
    BACKWARD_BEGIN = 3
    BACKWARD_END = 4
    """All gradients of the unit's parameters are available; the root's is the end of the whole backward."""
    INPUT = 10
    """Bytes of the batch, allocated (positive) or freed (negative), as in all kinds below."""
    ACTIVATION = 11
    """Anything that forward or backward allocates and no other kind covers."""
    LOGITS = 12
    """Allocated after the last unit's forward and before backward: logits, loss and what softmax keeps."""
    GRADIENT = 13
    """Gradient of a parameter, before any reduction; `unit` is the parameter's."""
    CAST = 14
    """Copy of a weight in the precision of the forward pass, which autocast keeps; `unit` is the weight's."""
    KERNEL = 15
    """Taken by a CPU kernel for itself: tensors in its own layout, workspace. Does not apply to GPUs."""


@dataclass(frozen=True)
class TensorInfo:
    """One parameter or buffer; a shared one is listed once."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """torch's name, like `float32`."""
    trainable: bool
    unit: int
    """Index of the unit that holds it."""

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.numel * ITEM_SIZES[self.dtype]


@dataclass(frozen=True)
class Trace:
    """One forward and backward of one microbatch on one rank, without the optimizer.

    Columns of the same length, in order of time. A microbatch's memory begins and ends at zero except for the
    gradients: weights and optimizer state are not in it.
    """

    microbatch: int
    """Samples."""
    cast: bool
    """Whether weights came in the precision of the forward pass, as FSDP gathers them; else autocast copies
    them.
    """
    checkpointing: bool
    """Whether blocks were recomputed in backward (activation checkpointing)."""
    kinds: npt.NDArray[np.int8]
    """`Event` values, shape (n,)."""
    units: npt.NDArray[np.int32]
    """Index of the unit concerned, shape (n,)."""
    values: npt.NDArray[np.int64]
    """Bytes, negative if freed; 0 in markers; shape (n,)."""

    @classmethod
    def of_rows(
        cls, microbatch: int, rows: Sequence[tuple[int, int, int]], *, cast: bool, checkpointing: bool
    ) -> Trace:
        """Return a trace of `rows`, each (kind, unit, bytes)."""
        import numpy as np

        columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
        kinds, units = columns[:, 0].astype(np.int8), columns[:, 1].astype(np.int32)
        return cls(microbatch, cast, checkpointing, kinds, units, columns[:, 2].copy())


@dataclass(frozen=True)
class ModelProfile:
    """Knowledge of a model and its data before any rank starts."""

    source: str
    """`traced`, or `closed form` if only a few numbers of the model are known."""
    parameters: tuple[TensorInfo, ...]
    buffers: tuple[TensorInfo, ...]
    units: tuple[str, ...]
    """Names of the FSDP units as modules of the model; the first is the root, ''."""
    precision: str
    """`fp32`, `bf16` or `fp16`."""
    traces: tuple[Trace, ...]
    train_samples: int | None = None
    heldout_samples: int | None = None
    tokens_per_sample: float | None = None
    """Count that the loss is a mean over, for one sample; None if the recipe counts samples."""
    notes: tuple[str, ...] = ()
    """Remarks of the tracer: one sentence each."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Inputs of a closed-form estimate."""

    def trace(self, microbatch: int, *, cast: bool, checkpointing: bool) -> Trace | None:
        """Return the trace of exactly these settings, if there is one."""
        for trace in self.traces:
            if (trace.microbatch, trace.cast, trace.checkpointing) == (microbatch, cast, checkpointing):
                return trace
        return None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "version": PROFILE_VERSION,
            "source": self.source,
            "parameters": [_tensor_json(tensor) for tensor in self.parameters],
            "buffers": [_tensor_json(tensor) for tensor in self.buffers],
            "units": list(self.units),
            "precision": self.precision,
            "traces": [_trace_json(trace) for trace in self.traces],
            "train_samples": self.train_samples,
            "heldout_samples": self.heldout_samples,
            "tokens_per_sample": self.tokens_per_sample,
            "notes": list(self.notes),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, value: Any) -> ModelProfile:
        """Return the profile in `value`.

        Raises:
            ProfileFormatError: it is not one, or of another version.
        """
        version = value.get("version") if isinstance(value, Mapping) else None
        if version != PROFILE_VERSION:
            raise ProfileFormatError(
                f"profile has version {version!r}; this Torchdeck reads {PROFILE_VERSION}"
            )
        try:
            return cls(
                source=str(value["source"]),
                parameters=tuple(_tensor_from(tensor) for tensor in value["parameters"]),
                buffers=tuple(_tensor_from(tensor) for tensor in value["buffers"]),
                units=tuple(str(unit) for unit in value["units"]),
                precision=str(value["precision"]),
                traces=tuple(_trace_from(trace) for trace in value["traces"]),
                train_samples=value["train_samples"],
                heldout_samples=value["heldout_samples"],
                tokens_per_sample=value["tokens_per_sample"],
                notes=tuple(str(note) for note in value["notes"]),
                facts=dict(value["facts"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfileFormatError(f"not a profile: {type(error).__name__}: {error}") from error


def _tensor_json(tensor: TensorInfo) -> list[Any]:
    return [tensor.name, list(tensor.shape), tensor.dtype, tensor.trainable, tensor.unit]


def _tensor_from(value: Any) -> TensorInfo:
    name, shape, dtype, trainable, unit = value
    if dtype not in ITEM_SIZES:
        raise ValueError(f"{name} has type {dtype!r}, which is unknown here")
    return TensorInfo(str(name), tuple(int(size) for size in shape), dtype, bool(trainable), int(unit))


def _trace_json(trace: Trace) -> dict[str, Any]:
    return {
        "microbatch": trace.microbatch,
        "cast": trace.cast,
        "checkpointing": trace.checkpointing,
        "kinds": trace.kinds.tolist(),
        "units": trace.units.tolist(),
        "values": trace.values.tolist(),
    }


def _trace_from(value: Any) -> Trace:
    import numpy as np

    columns = (
        np.asarray(value["kinds"], dtype=np.int8),
        np.asarray(value["units"], dtype=np.int32),
        np.asarray(value["values"], dtype=np.int64),
    )
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError("the columns of a trace differ in length")
    return Trace(int(value["microbatch"]), bool(value["cast"]), bool(value["checkpointing"]), *columns)
