"""Machines that a training just fits, or just does not: what is said of them, and what real ranks need."""

from __future__ import annotations

import pytest

from support.memory.limit_models import NAMES
from support.memory.measured_memory import Compared, Setting, compare, profile_of
from support.ranks.measured_ranks import measure
from torchdeck.plan.memory.fullness import SERIOUSNESS
from torchdeck.plan.memory.predict import predict_memory

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

GPT, WIDE = (2, 4, 128, 64), (2, 4, 640, 16)


def settings_of(recipe: str, model: tuple[int, int, int, int], microbatch: int) -> list[Setting]:
    """Alone, and on two ranks under each way to share the work."""
    return [
        Setting("single", 1, model, microbatch, recipe=recipe),
        Setting("ddp", 2, model, microbatch, recipe=recipe),
        Setting("fsdp", 2, model, microbatch, recipe=recipe),
    ]


ALL = [
    *(setting for name in NAMES for setting in settings_of(name, GPT, 32)),
    *settings_of("byte-gpt", GPT, 8),
    *settings_of("byte-gpt", WIDE, 2),
    Setting("fsdp", 3, GPT, 32, recipe="convnet"),
    Setting("ddp", 2, GPT, 32, "bf16", recipe="convnet"),
]
SAMPLE = [Setting("ddp", 2, GPT, 32, recipe="convnet"), Setting("fsdp", 2, GPT, 32, recipe="mlp")]
ENOUGH = 1.05
"""A machine with this much of what is needed is not refused."""


@pytest.fixture(scope="module")
def settings(request: pytest.FixtureRequest) -> list[Setting]:
    return ALL if request.config.getoption("--soak") else SAMPLE


@pytest.fixture(scope="module")
def found(settings: list[Setting]) -> list[Compared]:
    return compare(settings)


def test_no_rank_needs_more_than_the_range(found: list[Compared]) -> None:
    """In any of its steps: the tensors that its allocator counted, with what kernels and gloo take."""
    above = {one.setting.name: (one.measured, one.high) for one in found if one.measured > one.high}
    assert above == {}


def test_the_expected_peak_is_close(found: list[Compared]) -> None:
    """5 % for what kernels take, and none too high: a machine of 5 % more than the need is never refused."""
    for one in found:
        assert 0.95 * one.usual <= one.predicted <= 1.01 * one.usual, one.setting.name
        assert one.verdict_at(int(ENOUGH * one.usual)) != "does not fit", one.setting.name
        assert one.verdict_at(one.measured - 1) != "fits", one.setting.name


def test_what_is_said_to_fit_fits(settings: list[Setting]) -> None:
    """A machine on which it is said to fit by one byte has room for a real rank's whole resident set."""
    resident = measure(
        "support.memory.measured_resident:measure_resident", [setting.job for setting in settings]
    )
    for setting, sizes in zip(settings, resident, strict=True):
        profile, spec = profile_of(setting), setting.spec
        fullest = max(predict_memory(profile, spec), key=lambda group: group.peak_bytes)
        fits = max(fullest.high_bytes, -(-fullest.peak_bytes * 10 // 9))
        said = []
        for capacity in (fits, fits - 1, fullest.peak_bytes, fullest.peak_bytes - 1):
            groups = predict_memory(profile, spec, [capacity] * spec.world_size)
            said.append(max((group.verdict for group in groups), key=SERIOUSNESS.index))
        assert said == ["fits", "tight", "tight", "does not fit"], setting.name
        assert max(sizes) <= fits, setting.name
