"""The strategies by class."""

from __future__ import annotations

from typing import Any

from torchdeck.compat.strategies.given import given
from torchdeck.compat.strategies.strategy import DistributedStrategy


class FSDPStrategy(DistributedStrategy):
    """Weights, gradients and optimizer state sharded by FSDP2; modules of 1 million parameters are units.

    Without `training.mixed_precision` it computes in bf16.
    """

    name = "fsdp"
    usual_precision = "bf16"

    def _options(self) -> dict[str, Any]:
        return {"fsdp": {"wrap": "size"}}


class DeepSpeedStrategy(DistributedStrategy):
    """DeepSpeed's ZeRO: `distributed.zero_stage`, and `distributed.offload` of the optimizer's state.

    The loop sets the batch size, clips, and steps after each `backward`; the engine accumulates nothing.
    """

    name = "deepspeed"

    def _options(self) -> dict[str, Any]:
        return {
            "deepspeed": {
                "zero_stage": given(self.config, "distributed.zero_stage", 2),
                "offload_optimizer": bool(given(self.config, "distributed.offload", default=False)),
            }
        }


class DDPStrategy(DistributedStrategy):
    """A replica of the model on every rank."""

    name = "ddp"


class SingleGPUStrategy(DistributedStrategy):
    """One process, on a GPU or on the CPU."""

    name = "single"
