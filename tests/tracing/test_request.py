"""The request that the tracing process reads: checked before anything is done."""

from typing import Any

import pytest

from torchdeck.distributed.checked import SettingsError
from torchdeck.tracing.request import PlannedBatch, TraceRequest, WantedTrace

PACKED = {"samples": [7, 0], "max_len": 9, "row_sizes": [2]}
GOOD: dict[str, Any] = {
    "version": 1,
    "recipe": "byte-gpt",
    "model": {"layers": 2},
    "data": {},
    "precision": "bf16",
    "fsdp": {"wrap": "size", "min_params": 5, "param_dtype": "auto"},
    "traces": [{"microbatch": 3, "cast": True}, {"microbatch": 2, "batches": [PACKED]}],
}


def batches(*values: Any) -> dict[str, Any]:
    """A change of the good request."""
    return {"traces": [{"microbatch": 1, "batches": list(values)}]}


def test_a_request_is_read() -> None:
    """Every field, and defaults for what is missing."""
    request = TraceRequest.from_json(GOOD)
    assert request.traces == (
        WantedTrace(3, cast=True),
        WantedTrace(2, batches=(PlannedBatch((7, 0), 9, (2,)),)),
    )
    assert request.fsdp.min_params == 5
    assert (request.seed, request.heldout, request.limit) == (0, False, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "has version 2; this Torchdeck reads 1"),
        ({"precision": "fp8"}, "request.precision is 'fp8': expected one of"),
        ({"traces": None}, "request.traces is None: expected a list"),
        ({"traces": [3]}, r"request.traces\[0\] is 3: expected a mapping"),
        ({"traces": [{"microbatch": 0}]}, r"request.traces\[0\].microbatch is 0; expected 1 or more"),
        (batches({"samples": [-1], "max_len": 1}), r"batches\[0\].samples must be whole numbers from 0"),
        (batches({"samples": [], "max_len": 1}), "one at least"),
        (batches({"samples": "12", "max_len": 1}), r"batches\[0\].samples is '12': expected a list"),
        (
            batches({"samples": [1.0], "max_len": 1}),
            r"batches\[0\].samples\[0\] is 1.0: expected a whole number",
        ),
        ({"fsdp": {"wrap": "all"}}, "request.fsdp.wrap is 'all'"),
        ({"odd": 1}, "unknown fields odd"),
    ],
)
def test_a_wrong_request_is_refused(change: dict[str, Any], said: str) -> None:
    """The sentence names the field."""
    with pytest.raises(SettingsError, match=said):
        TraceRequest.from_json(GOOD | change)


def test_something_else_is_refused() -> None:
    """Not an object at all."""
    with pytest.raises(SettingsError, match="has version None"):
        TraceRequest.from_json([])
