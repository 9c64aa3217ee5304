"""Request to the tracing process, as JSON. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.rank_settings import FsdpSettings

REQUEST_VERSION = 1


@dataclass(frozen=True)
class PlannedBatch:
    """Microbatch of a batch plan."""

    samples: tuple[int, ...]
    """Sample ids."""
    max_len: int
    """Number of tokens to which rows are padded."""
    row_sizes: tuple[int, ...] | None = None
    """Samples in each row; None if each has a row of its own."""


@dataclass(frozen=True)
class WantedTrace:
    """Requested trace; see `torchdeck.contract.plan.model_profile.Trace`."""

    microbatch: int
    """Number of samples; with a batch plan only the trace's name."""
    cast: bool = False
    checkpointing: bool = False
    batches: tuple[PlannedBatch, ...] = ()
    """Candidates, of which the one with the highest memory use is traced; empty: the first samples of the
    data.
    """


@dataclass(frozen=True)
class TraceRequest:
    """Recipe and its requested traces."""

    version: int
    recipe: str
    model: dict[str, Any]
    data: dict[str, Any]
    precision: Literal["fp32", "bf16", "fp16"]
    fsdp: FsdpSettings
    seed: int = 0
    heldout: bool = False
    """Whether the validation data is read too."""
    needs_layout: str = ""
    """Why a batch plan's samples do not define a microbatch, as a clause; empty if they do."""
    limit: float | None = None
    """Seconds after which the process exits by itself, in case its parent is gone."""
    traces: tuple[WantedTrace, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> TraceRequest:
        """Return the request in `value`.

        Raises:
            SettingsError: another version, or a field is missing, unknown or of the wrong type.
        """
        version = value.get("version") if isinstance(value, dict) else None
        if version != REQUEST_VERSION:
            raise SettingsError(
                f"the request has version {version!r}; this Torchdeck reads {REQUEST_VERSION}"
            )
        request = read_fields(cls, value, "request")
        for i, wanted in enumerate(request.traces):
            _check(wanted, f"request.traces[{i}]")
        return request


def _check(wanted: WantedTrace, path: str) -> None:
    if wanted.microbatch < 1:
        raise SettingsError(f"{path}.microbatch is {wanted.microbatch}; expected 1 or more")
    for i, batch in enumerate(wanted.batches):
        if not batch.samples or min(batch.samples) < 0:
            raise SettingsError(f"{path}.batches[{i}].samples must be whole numbers from 0, one at least")
