"""What a sampler saves: the position, and what it is a position in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from torchdeck.data.order import Position, PositionError

_KINDS = ("exactly_once", "padded", "drop_last")


@dataclass(frozen=True)
class SamplerState:
    """A position in the order of one data set.

    Attributes:
        position: free of world size with `exactly_once`; else in the padded or cut order.
        total_samples: samples in the data set.
        seed: of the order.
        shuffle: whether the order is shuffled.
        kind: "exactly_once", "padded" or "drop_last".
        world_size: ranks where the order depends on it; None where it does not.
    """

    position: Position
    total_samples: int
    seed: int
    shuffle: bool
    kind: str
    world_size: int | None

    def to_json(self) -> dict[str, Any]:
        return {"v": 1, **asdict(self), "position": self.position.to_json()}

    @classmethod
    def from_json(cls, value: Any) -> SamplerState:
        """The state in `value`.

        Raises:
            PositionError: it is none, or one of a newer Torchdeck.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or "position" not in value:
            raise PositionError(f"the state of a sampler is an object with a position, not {value!r}")
        if value.get("v") != 1:
            raise PositionError(
                f"sampler state has version {value.get('v')!r}; this Torchdeck reads version 1"
            )
        wrong = sorted(map(str, set(value) ^ {"v", *names}))
        if wrong:
            raise PositionError(f"sampler state has unknown or missing fields: {', '.join(wrong)}")
        world_size = value["world_size"]
        if type(value["shuffle"]) is not bool or value["kind"] not in _KINDS:
            raise PositionError(f"sampler state has shuffle {value['shuffle']!r} and kind {value['kind']!r}")
        for name in ("total_samples", "seed", *(() if world_size is None else ("world_size",))):
            if type(value[name]) is not int:
                raise PositionError(f"{name} of a sampler state must be a whole number, not {value[name]!r}")
        return cls(
            **{**{name: value[name] for name in names}, "position": Position.from_json(value["position"])}
        )

    def check_against(self, current: SamplerState) -> None:
        """Raises PositionError unless `current`, the state of the sampler it is for, is in the same order."""
        for name in ("kind", "total_samples", "shuffle", "seed", "world_size"):
            saved, ours = getattr(self, name), getattr(current, name)
            if name == "seed" and not self.shuffle:
                continue
            if saved != ours:
                advice = ": only an exactly_once sampler can change it" if name == "world_size" else ""
                raise PositionError(
                    f"the sampler's state was saved with {name} {saved!r}, this sampler has {ours!r}{advice}"
                )
