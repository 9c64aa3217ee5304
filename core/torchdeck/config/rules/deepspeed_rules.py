"""Contradictions of the options of DeepSpeed's ZeRO."""

from __future__ import annotations

from collections.abc import Iterator

from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.toml.document import KeyPath

_STRATEGY: KeyPath = ("distributed", "strategy")
_STAGE: KeyPath = ("distributed", "deepspeed", "zero_stage")
_WEIGHTS_DIVIDED = 3


def offloaded_parameters(given: Given) -> Iterator[Finding]:
    """Only weights that are divided among the ranks can wait in the machine's memory."""
    distributed = given.config.distributed
    options = distributed.deepspeed
    if distributed.strategy != "deepspeed" or not options.offload_parameters:
        return
    if options.zero_stage != _WEIGHTS_DIVIDED:
        wrong = f"with zero_stage = {options.zero_stage} every device holds all weights"
        right = "zero_stage = 3, or no offload_parameters"
        yield Finding(("distributed", "deepspeed", "offload_parameters"), wrong, right, (_STAGE, _STRATEGY))


def fp16(given: Given) -> Iterator[Finding]:
    """DeepSpeed has a loss scaler of its own, which would scale what ours has scaled."""
    if given.config.distributed.strategy == "deepspeed" and given.config.training.precision == "fp16":
        wrong = "DeepSpeed scales the loss by itself under fp16, which Torchdeck does not follow"
        right = '"bf16" or "fp32", or another distributed.strategy'
        yield Finding(("training", "precision"), wrong, right, (_STRATEGY,))


def ema(given: Given) -> Iterator[Finding]:
    """A rank averages the weights it computes with: they must be there whole, and be the ones that train."""
    distributed, training = given.config.distributed, given.config.training
    if distributed.strategy != "deepspeed" or training.ema is None:
        return
    stage = distributed.deepspeed.zero_stage
    if stage == _WEIGHTS_DIVIDED or training.precision != "fp32":
        where = "zero_stage = 3" if stage == _WEIGHTS_DIVIDED else f'precision = "{training.precision}"'
        wrong = f"under DeepSpeed with {where} no rank computes with whole fp32 weights to average"
        right = 'no ema, or distributed.strategy = "fsdp"'
        yield Finding(("training", "ema"), wrong, right, (_STAGE, _STRATEGY, ("training", "precision")))


DEEPSPEED_RULES: tuple[Rule, ...] = (offloaded_parameters, fp16, ema)
