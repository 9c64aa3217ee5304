"""Ranks that exchange JSON, one of which may be a stranger: bodies for `support.ranks.measured_ranks`."""

from __future__ import annotations

from typing import Any

from support.ranks.measured_ranks import Job


def exchange(job: Job) -> Any:
    """What every way gives this rank; what a rank has depends on its number, so lengths differ."""
    from torch import distributed as dist

    from torchdeck.distributed.group import json_collectives

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = {"rank": rank, "text": "ä" * rank * 1000, "none": None}
    replies = [f"for {other}" * (other + 1) for other in range(job["world_size"])] if rank == 0 else []
    found = [
        json_collectives.all_gather(mine),
        json_collectives.gather(mine),
        json_collectives.scatter(replies),
        json_collectives.broadcast(mine if rank == 0 else None),
    ]
    return [
        [[item["rank"], len(item["text"])] for item in found[0]],
        [item["rank"] for item in found[1]],
        found[2],
        found[3]["rank"],
    ]


def hear_a_stranger(job: Job) -> str:
    """Rank 1 sends `length` as its length and `content` as its message; what the others say of it."""
    import torch
    from torch import distributed as dist

    from torchdeck.distributed.group import json_collectives

    dist.init_process_group("gloo")
    content = job["content"].encode()
    if dist.get_rank() == 1:
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
        dist.all_gather(lengths, torch.tensor([job["length"] or len(content)]))
        if job["length"]:
            return ""
        longest = max(int(length) for length in lengths)
        places = [torch.empty(longest, dtype=torch.uint8) for _ in range(2)]
        dist.all_gather(places, torch.frombuffer(bytearray(content.ljust(longest, b"\0")), dtype=torch.uint8))
        return ""
    try:
        json_collectives.all_gather(0)
    except json_collectives.PeerMessageError as error:
        return str(error)
    return "believed"
