"""Gradients that DDP sends cut to bf16: half the bytes.

torch has such a hook (`bf16_compress_hook`) and refuses it where there is no NCCL; gloo can do the same.
"""

# no `from __future__ import annotations`: DDP looks at the annotations of a hook themselves
import torch
import torch.distributed as dist


def reduce_in_bf16(
    group: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DDP: the mean over the ranks, added up in bf16.

    Divided before it is added up, as torch's hook does, so that no sum is larger than its parts.
    """
    gradients: torch.Tensor = bucket.buffer()
    sent = gradients.to(torch.bfloat16).div_(dist.get_world_size(group))
    future = dist.all_reduce(sent, group=group, async_op=True).get_future()

    def back(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        gradients.copy_(done.value()[0])
        return gradients

    return future.then(back)  # type: ignore[no-any-return]  # torch's futures are loosely typed
