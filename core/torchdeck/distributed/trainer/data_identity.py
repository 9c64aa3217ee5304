"""Identity of the training data, so that a checkpoint is not resumed with other data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchdeck.data.order import PositionError
from torchdeck.distributed.batches import SizedDataset
from torchdeck.distributed.recipe import Recipe, RecipeError


@dataclass(frozen=True)
class DataIdentity:
    """Known properties of a training data set."""

    size: int
    """Samples."""
    fingerprint: str = ""
    """Recipe-defined text that distinguishes its data from other data; empty if not defined."""

    def to_json(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""
        return {"size": self.size, "fingerprint": self.fingerprint}

    def check_same(self, saved: Any) -> None:
        """Raise PositionError if `saved`, from a checkpoint, describes other data.

        Values missing on either side are not compared; checkpoints of older Torchdeck versions have none.
        """
        if not isinstance(saved, Mapping):
            return
        size, fingerprint = saved.get("size"), saved.get("fingerprint")
        if size is not None and size != self.size:
            raise PositionError(
                f"the checkpoint was trained on {size} samples, and the training data has {self.size}: "
                "give the data it was trained on, or start afresh"
            )
        if fingerprint and self.fingerprint and fingerprint != self.fingerprint:
            raise PositionError(
                f"the checkpoint was trained on data with fingerprint {fingerprint}, and the training data "
                f"has {self.fingerprint}: give the data it was trained on, or start afresh"
            )


def data_identity(recipe: Recipe, options: dict[str, Any], data: SizedDataset) -> DataIdentity:
    """Return the size of `data`, and the fingerprint from the recipe's `fingerprint(options)` or the data
    set's `fingerprint`.

    Raises:
        RecipeError: the recipe's function does not return a string.
    """
    if recipe.fingerprint is None:
        said = getattr(data, "fingerprint", "")
        return DataIdentity(len(data), said if isinstance(said, str) else "")
    said = recipe.fingerprint(dict(options))
    if not isinstance(said, str):
        raise RecipeError(
            f"fingerprint(options) of recipe {recipe.name} returned {type(said).__name__}: return a text "
            "that differs where the data does"
        )
    return DataIdentity(len(data), said)
