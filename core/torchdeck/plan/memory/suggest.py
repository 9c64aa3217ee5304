"""The cheapest config changes that make a run fit, each verified with the same memory prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.peak import PredictedPeak, predict_peak
from torchdeck.plan.memory.predict import FITS, TIGHT_VERDICT, UNKNOWN, verdict
from torchdeck.plan.memory.replay import UntracedError
from torchdeck.plan.memory.spec import FULLY_SHARDED, ZERO, StrategySpec
from torchdeck.quantities import size


@dataclass(frozen=True)
class Suggestion:
    """Config change that makes a run fit."""

    change: Mapping[str, Any]
    """Dotted keys of run.toml → their new values."""
    sentence: str
    """Readable description of the change and its cost."""
    peak_bytes: int
    """Peak with the change applied."""
    verdict: str
    """Verdict with the change applied; `fits` or `tight`."""


@dataclass(frozen=True)
class _Step:
    """Change of a run, with its cost in words."""

    change: Mapping[str, Any]
    spec: StrategySpec
    price: str


@dataclass(frozen=True)
class _Judge:
    """Evaluates a changed run against the device with the least memory."""

    profiles: Sequence[ModelProfile]
    capacity: int
    free: int | None
    wants_room: bool = False
    """Whether `tight` is not good enough."""

    def says(self, spec: StrategySpec) -> str:
        """Return the verdict on `spec`; `unknown` if it cannot be predicted."""
        tried = self.try_(spec)
        return UNKNOWN if tried is None else tried[1]

    def try_(self, spec: StrategySpec) -> tuple[PredictedPeak, str] | None:
        """Return the peak and verdict of `spec`; None if it cannot be predicted."""
        for profile in self.profiles:
            if profile.precision != spec.precision:
                continue
            try:
                peak = predict_peak(profile, spec)
            except UntracedError:
                return None
            total = peak.highest.total
            return peak, verdict(total, total + peak.margin, self.capacity, self.free)
        return None


def suggest(
    profile: ModelProfile,
    spec: StrategySpec,
    capacity: int,
    free: int | None = None,
    *,
    others: Sequence[ModelProfile] = (),
    keep_microbatch: bool = False,
    eight_bit: bool = False,
) -> tuple[Suggestion, ...]:
    """Return changes after which `spec` fits, cheapest first; empty if none of those tried is enough.

    The following changes are tried: a smaller microbatch (with more accumulation, so the global batch stays),
    activation checkpointing, bf16, sharding, resharding after the forward, a higher ZeRO stage, ZeRO's
    optimizer in host memory, and a smaller global batch without accumulation, which needs gradients of its
    own. Each is tried alone. If none is enough, they are combined. If `spec` is tight, only changes with the
    verdict `fits` count as an improvement.

    Args:
        profile: profile of the model.
        spec: settings that do not fit.
        capacity: bytes of the smallest device.
        free: bytes of it that are free now.
        others: profiles of the same model in other precisions; without them precision is not suggested.
        keep_microbatch: the config cannot choose the microbatch, as under a batch plan.
        eight_bit: the program may use an 8-bit optimizer.
    """
    judge = _Judge((profile, *others), capacity, free)
    judge = replace(judge, wants_room=judge.says(spec) == TIGHT_VERDICT)
    groups = _groups(spec, keep_microbatch=keep_microbatch)
    if eight_bit and (step := _eight_bit(spec)) is not None:
        groups.insert(2, [step])
    alone = [step for group in groups if (step := _best(judge, group))]
    if alone:
        return tuple(_suggestion(judge, (step,)) for step in alone)
    return _together(judge, spec, keep_microbatch=keep_microbatch)


def _groups(spec: StrategySpec, *, keep_microbatch: bool) -> list[list[_Step]]:
    """Return kinds of change in order of cost; within each kind the mildest comes first."""
    smaller = [] if keep_microbatch else list(_smaller(spec))
    return [
        smaller,
        *([step] for step in (_checkpointing(spec), _bf16(spec), _sharded(spec), _reshard(spec)) if step),
        list(_zero_stages(spec)),
        [step for step in (_offload(spec),) if step],
        list(_smaller_steps(spec, keep_microbatch=keep_microbatch)),
    ]


def _best(judge: _Judge, steps: Sequence[_Step]) -> _Step | None:
    """Return the mildest step that fits, or the mildest that is tight if none fits."""
    tight = None
    for step in steps:
        said = judge.says(step.spec)
        if said == FITS:
            return step
        if said == TIGHT_VERDICT and not judge.wants_room:
            tight = tight or step
    return tight


def _together(judge: _Judge, spec: StrategySpec, *, keep_microbatch: bool) -> tuple[Suggestion, ...]:
    """Combine changes until the run fits."""
    taken: list[_Step] = []
    for make in (_checkpointing, _reshard, _sharded, _last_stage, _offload, _bf16):
        step = make(spec)
        if step is None or judge.try_(step.spec) is None:
            continue
        taken.append(step)
        spec = step.spec
        more = [] if keep_microbatch else _smaller(spec)
        last = _best(judge, [step, *more, *_smaller_steps(spec, keep_microbatch=keep_microbatch)])
        if last is not None:
            return (_suggestion(judge, (*taken, last) if last is not step else tuple(taken)),)
    return ()


def _suggestion(judge: _Judge, steps: Sequence[_Step]) -> Suggestion:
    tried = judge.try_(steps[-1].spec)
    if tried is None:
        raise RuntimeError("an untried change is suggested")
    peak = tried[0].highest.total
    change = {key: value for step in steps for key, value in step.change.items()}
    settings = ", ".join(f"{key} = {_toml(value)}" for key, value in change.items())
    price = "; ".join(step.price for step in steps)
    sentence = f"{settings}: {size(peak)} at the peak ({price})"
    return Suggestion(change, sentence, peak, tried[1])


def _smaller(spec: StrategySpec) -> Iterator[_Step]:
    """Yield smaller microbatches, largest first, each with the accumulation that keeps the global batch."""
    samples = spec.microbatch * spec.accumulation
    for microbatch in range(spec.microbatch - 1, 0, -1):
        if samples % microbatch == 0:
            accumulation = samples // microbatch
            yield _Step(
                {"training.microbatch": microbatch, "training.accumulation": accumulation},
                replace(spec, microbatch=microbatch, accumulation=accumulation),
                "the same global batch in more, smaller passes",
            )


def _smaller_steps(spec: StrategySpec, *, keep_microbatch: bool) -> Iterator[_Step]:
    """Yield steps of a single microbatch: first of the same size, then smaller ones."""
    samples = spec.microbatch * spec.accumulation
    smallest = spec.microbatch if keep_microbatch else 1
    for microbatch in range(spec.microbatch, smallest - 1, -1):
        same = microbatch == spec.microbatch
        if (same and spec.accumulation == 1) or samples % microbatch:
            continue
        change = {} if same else {"training.microbatch": microbatch}
        yield _Step(
            {**change, "training.accumulation": 1},
            replace(spec, microbatch=microbatch, accumulation=1),
            f"a global batch of 1/{samples // microbatch}",
        )


def _checkpointing(spec: StrategySpec) -> _Step | None:
    if spec.checkpointing:
        return None
    key = "training.activation_checkpointing"
    return _Step({key: True}, replace(spec, checkpointing=True), "blocks are computed twice")


def _eight_bit(spec: StrategySpec) -> _Step | None:
    if spec.optimizer != "adamw" or spec.device == "cpu":
        return None
    change = {"training.optimizer": "adamw_bnb_8bit"}
    return _Step(change, replace(spec, optimizer="adamw_8bit"), "moments in 8 bit, by bitsandbytes")


def _bf16(spec: StrategySpec) -> _Step | None:
    if spec.precision != "fp32":
        return None
    # gathered weights follow the precision unless the config sets their own, and were traced that way
    changed = replace(spec, precision="bf16", param_precision="bf16")
    return _Step({"training.precision": "bf16"}, changed, "forward and backward in 16 bit")


def _sharded(spec: StrategySpec) -> _Step | None:
    if spec.world_size == 1 or spec.shard == spec.world_size:
        return None
    change = {"distributed.strategy": "fsdp"}
    return _Step(change, spec.with_kind("fsdp"), "weights are gathered as they are needed")


def _reshard(spec: StrategySpec) -> _Step | None:
    if spec.kind not in FULLY_SHARDED or spec.reshard_after_forward:
        return None
    key = "distributed.fsdp.reshard_after_forward"
    return _Step({key: True}, replace(spec, reshard_after_forward=True), "weights are gathered once more")


def _zero_stages(spec: StrategySpec) -> Iterator[_Step]:
    """Yield the ZeRO stages above this one."""
    prices = {
        "zero2": "gradients are reduced in every microbatch",
        "zero3": "weights are gathered as they are needed",
    }
    if spec.kind not in ZERO:
        return
    for kind in ZERO[ZERO.index(spec.kind) + 1 :]:
        stage = {"distributed.deepspeed.zero_stage": ZERO.index(kind) + 1}
        yield _Step(stage, spec.with_kind(kind), prices[kind])


def _last_stage(spec: StrategySpec) -> _Step | None:
    return next(iter(list(_zero_stages(spec))[-1:]), None)


def _offload(spec: StrategySpec) -> _Step | None:
    if spec.kind not in ZERO or spec.offload or spec.device == "cpu":
        return None
    key = "distributed.deepspeed.offload_optimizer"
    return _Step({key: True}, replace(spec, offload=True), "the optimizer steps on the CPU")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
