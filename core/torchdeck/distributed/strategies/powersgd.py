"""PowerSGD (Vogels et al., 2019) on DDP's gradients, and what it remembers in a checkpoint."""

# no `from __future__ import annotations`: DDP looks at the annotations of a hook themselves
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchdeck.distributed.checkpoints.tensors.training_tensors import ModuleTensors

WHOLE_STEPS = 10
"""Steps at the beginning whose gradients are sent whole: they change too fast to be approximated."""

_PREFIX = "powersgd."
_MEMORIES = ("error", "p", "q")
"""`error`: what earlier approximations left out of this rank's gradients; `p`, `q`: the last factors."""


def compress_by_powersgd(wrapped: DistributedDataParallel, rank: int) -> PowerSGDState:
    """Send gradients of `wrapped` as products of matrices of `rank` columns, from the first step on."""
    state = PowerSGDState(process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=WHOLE_STEPS)
    wrapped.register_comm_hook(state, _one_bucket_after_the_other)
    return state


def _one_bucket_after_the_other(
    state: PowerSGDState,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """torch's hook, which waits for collectives in callbacks: gloo's two threads were soon all waiting."""
    done = powerSGD_hook(state, bucket)
    if bucket.buffer().device.type == "cpu":
        done.wait()
    return done


class PowerSgdTensors(ModuleTensors):
    """With the approximation's memory among what is each rank's own.

    It is of one world size: at another the memory starts anew, with whole gradients at first.
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
            return  # saved by a run that sent gradients whole
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
    """One of `_MEMORIES`, by bucket."""
    return {"error": state.error_dict, "p": state.p_memory_dict, "q": state.q_memory_dict}[name]
