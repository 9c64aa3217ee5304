"""Says which process it is before, during and after being one of the ranks, as one line of JSON."""

import json
import sys

import torch
import torch.distributed as dist

from torchdeck.distributed import (
    cleanup_distributed,
    get_local_rank,
    get_rank,
    get_world_size,
    is_initialized,
    is_main_process,
    setup_distributed,
)


def said() -> list[object]:
    return [is_initialized(), get_rank(), get_world_size(), get_local_rank(), is_main_process()]


before = said()
config = setup_distributed(timeout=60)
during = said()
total = torch.tensor([float(get_rank() + 1)])
dist.all_reduce(total)
cleanup_distributed()
cleanup_distributed()
line = {"before": before, "during": during, "after": said(), "sum": float(total), "backend": config.backend}
# in one piece: ranks write into the same pipe, and unbuffered `print` writes the end of a line by itself
sys.stdout.write(json.dumps(line) + "\n")
sys.stdout.flush()
