"""Hooks on DDP's gradients: reduction in bf16, and PowerSGD (Vogels et al., 2019) with its state."""

# no `from __future__ import annotations`: DDP inspects a hook's annotation objects
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors

WHOLE_STEPS = 10
"""Number of first steps whose gradients are sent uncompressed: they change too fast to be approximated."""

_PREFIX = "powersgd."
_MEMORIES = ("error", "p", "q")
"""`error`: the part of this rank's gradients that earlier approximations omitted; `p`, `q`: the last factors.
"""


def compress_by_powersgd(wrapped: DistributedDataParallel, rank: int) -> PowerSGDState:
    """Send gradients of `wrapped` as products of matrices with `rank` columns, from the first step on."""
    state = PowerSGDState(process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=WHOLE_STEPS)
    wrapped.register_comm_hook(state, _one_bucket_after_the_other)
    return state


def _one_bucket_after_the_other(
    state: PowerSGDState,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """Run torch's hook one bucket at a time. It waits for collectives in callbacks, which soon blocked both
    of gloo's threads.
    """
    done = powerSGD_hook(state, bucket)
    if bucket.buffer().device.type == "cpu":
        done.wait()
    return done


class PowerSgdTensors(ModuleTensors):
    """Module tensors that include PowerSGD's memory in each rank's own state.

    The memory is valid for one world size. At another it starts again, first with uncompressed gradients.
    """

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer], state: PowerSGDState) -> None:
        super().__init__(model, optimizers)
        self._state = state

    def buffers(self) -> dict[str, torch.Tensor]:
        found = super().buffers()
        found[_PREFIX + "steps"] = torch.tensor(self._state.iter)
        for memory in _MEMORIES:
            for bucket, value in _memory(self._state, memory).items():
                found[f"{_PREFIX}{memory}.{bucket}"] = value.detach().cpu().clone()
        return found

    def restore_buffers(self, saved: Mapping[str, torch.Tensor]) -> None:
        super().restore_buffers(saved)
        if _PREFIX + "steps" not in saved:
            return  # saved by a run without gradient compression
        device = next(self._model.parameters()).device
        self._state.iter = int(saved[_PREFIX + "steps"])
        for memory in _MEMORIES:
            prefix = f"{_PREFIX}{memory}."
            buckets = {
                int(name.removeprefix(prefix)): value.to(device)
                for name, value in saved.items()
                if name.startswith(prefix)
            }
            _memory(self._state, memory).clear()
            _memory(self._state, memory).update(buckets)


def _memory(state: PowerSGDState, name: str) -> dict[int, torch.Tensor]:
    """Return one of `_MEMORIES`, by bucket."""
    return {"error": state.error_dict, "p": state.p_memory_dict, "q": state.q_memory_dict}[name]


# Half the bytes. torch's own hook (`bf16_compress_hook`) is rejected without NCCL; gloo can do the same.


def reduce_in_bf16(
    group: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """DDP communication hook: average over the ranks, summed in bf16.

    Divides before summing, as torch's hook does, so that no sum is larger than its parts.
    """
    gradients: torch.Tensor = bucket.buffer()
    sent = gradients.to(torch.bfloat16).div_(dist.get_world_size(group))
    future = dist.all_reduce(sent, group=group, async_op=True).get_future()

    def back(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        gradients.copy_(done.value()[0])
        return gradients

    return future.then(back)  # type: ignore[no-any-return]  # torch's futures are loosely typed
