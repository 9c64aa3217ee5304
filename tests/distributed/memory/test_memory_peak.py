"""Predicted peaks against those of real ranks, by their allocators' own events."""

import pytest

from support.memory.measured_memory import Compared, Setting, compare

pytestmark = pytest.mark.processes

SMALL, ODD = (2, 4, 128, 64), (3, 3, 51, 33)

USUAL = [
    Setting("single", 1, SMALL, 4, checkpointing=True),
    Setting("ddp", 2, ODD, 3, accumulation=2, bucket_view=False, optimizer="sgd"),
    Setting("fsdp", 2, SMALL, 4, "bf16", checkpointing=True, reshard=False),
]
MORE = [
    Setting("ddp", 2, SMALL, 4, accumulation=2),
    Setting("ddp", 2, ODD, 3, bucket_view=False, optimizer="sgd"),
    Setting("fsdp", 2, SMALL, 4, "bf16", accumulation=3, checkpointing=True),
    Setting("fsdp", 3, ODD, 3),
    Setting("hsdp", 4, SMALL, 4, shard=2, reshard=False),
]
SETTINGS = USUAL + MORE
"""A few of those in benchmarks/bench_memory.py: of a normal run, and what a soak adds."""
SCRATCH = 0.03
"""Working memory inside of operations, which no trace sees: largest part in models as small as these."""


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> list[Compared]:
    return compare(SETTINGS if request.config.getoption("--soak") else USUAL)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(index, id=setting.name, marks=[pytest.mark.soak] if setting in MORE else [])
        for index, setting in enumerate(SETTINGS)
    ],
)
def test_peak_is_what_was_predicted(found: list[Compared], index: int) -> None:
    """Within scratch memory where nothing was freed late, and in each rank's best step inside the range.

    How late a worker of gloo frees its buffers is up to the machine: a rank has several steps to show one
    without.
    """
    one = found[index]
    assert one.least <= (1 + SCRATCH) * one.predicted
    assert one.predicted <= one.usual <= one.high


def test_no_verdict_promises_too_much(found: list[Compared]) -> None:
    """Devices of 5 % less than was needed are never said to fit, those of 5 % more never refused."""
    assert [one.setting.name for one in found if one.verdict_at(int(0.95 * one.usual)) == "fits"] == []
    assert [
        one.setting.name for one in found if one.verdict_at(int(1.05 * one.usual)) == "does not fit"
    ] == []
