"""What stops a training that has gone wrong, in a sentence that names the rank at fault."""

from __future__ import annotations

import math
from contextlib import suppress

from torchdeck.distributed.process_group import ProcessGroup
from torchdeck.recipes.errors import RecipeError


def raise_for_bad_loss(group: ProcessGroup, local: float, *, what: str) -> None:
    """Every rank calls it when the loss over all ranks is not finite; names the first rank that brought it
    in.

    Args:
        group: the ranks.
        local: this rank's own sum.
        what: "loss in step 12".

    Raises:
        RecipeError: always; on the rank at fault first, so that it is the first to end.
    """
    mine = group.rank if not math.isfinite(local) else group.world_size
    first = int(group.minimum([mine])[0])
    value = "nan" if math.isnan(local) else repr(local)
    if first == group.rank:
        raise RecipeError(
            f"the {what} is {value} on rank {first}: lower training.lr, set training.clip, or look at the "
            "data"
        )
    with suppress(RuntimeError):
        group.sum([0.0])  # never answered by the rank at fault: ends when that rank's connection does
    raise RecipeError(f"the {what} is not finite on rank {first}")
