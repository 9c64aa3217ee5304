"""What the process that traces is asked, as JSON. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.settings import FsdpSettings

REQUEST_VERSION = 1


@dataclass(frozen=True)
class WantedTrace:
    """One trace to make; see `torchdeck.plan.model_profile.Trace`."""

    microbatch: int
    """Samples."""
    cast: bool = False
    checkpointing: bool = False
    samples: tuple[int, ...] = ()
    """Ids of the samples; empty: the first ones of the data."""


@dataclass(frozen=True)
class TraceRequest:
    """A recipe, and the traces of it that are wanted."""

    version: int
    recipe: str
    model: dict[str, Any]
    data: dict[str, Any]
    precision: Literal["fp32", "bf16", "fp16"]
    fsdp: FsdpSettings
    seed: int = 0
    heldout: bool = False
    """Whether the held-out data is looked at too."""
    limit: float | None = None
    """Seconds after which the process is to end by itself, whoever started it being gone."""
    traces: tuple[WantedTrace, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> TraceRequest:
        """The request in `value`.

        Raises:
            SettingsError: another version, or a field is missing, unknown or of the wrong type.
        """
        version = value.get("version") if isinstance(value, dict) else None
        if version != REQUEST_VERSION:
            raise SettingsError(
                f"the request has version {version!r}; this Torchdeck reads {REQUEST_VERSION}"
            )
        rest = {name: content for name, content in value.items() if name != "traces"}
        traces = value.get("traces")
        if not isinstance(traces, list):
            raise SettingsError(f"request.traces must be a list, not {traces!r}")
        request = read_fields(cls, rest, "request")
        wanted = tuple(_wanted(trace, f"request.traces[{i}]") for i, trace in enumerate(traces))
        return replace(request, traces=wanted)


def _wanted(value: Any, path: str) -> WantedTrace:
    if not isinstance(value, dict):
        raise SettingsError(f"{path} must be an object, not {value!r}")
    rest = {name: item for name, item in value.items() if name != "samples"}
    wanted = read_fields(WantedTrace, rest, path)
    if wanted.microbatch < 1:
        raise SettingsError(f"{path}.microbatch is {wanted.microbatch}; right is 1 or more")
    samples = value.get("samples", [])
    if not isinstance(samples, (list, tuple)) or any(type(item) is not int or item < 0 for item in samples):
        raise SettingsError(f"{path}.samples must be a list of whole numbers from 0")
    if samples and len(samples) != wanted.microbatch:
        raise SettingsError(f"{path}.samples has {len(samples)} ids for {wanted.microbatch} samples")
    return replace(wanted, samples=tuple(samples))
