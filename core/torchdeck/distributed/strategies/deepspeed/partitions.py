"""Where the pieces of each parameter lie in DeepSpeed's flat fp32 partitions, alike for all stages of ZeRO.

Stages 1 and 2 cut the concatenation of a parameter group's parameters into equal parts, one a rank
(`stage_1_and_2.py`); stage 3 cuts every parameter so (`stage3.py`, `set_grad_positions`). Read in DeepSpeed
0.19.8; its own functions for this (`deepspeed.utils.safe_get_full_fp32_param` and its like) give every rank
the whole tensor, and cannot set optimizer state before the first step has made it.
"""

# ruff: noqa: SLF001 - there is no public way to what lies where

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

STAGE_3 = 3


@dataclass(frozen=True)
class Fragment:
    """A piece of a parameter that lies on this rank."""

    partition: int
    """Which flat tensor it lies in."""
    start: int
    """Its first element there."""
    at: int
    """Its first element in the flattened parameter."""
    size: int
    """Elements."""

    def of(self, flat: Tensor) -> Tensor:
        """The piece of a flat tensor."""
        return flat.narrow(0, self.start, self.size)

    def of_whole(self, parameter: Tensor) -> Tensor:
        """The piece of the whole parameter."""
        return parameter.reshape(-1).narrow(0, self.at, self.size)


class Partitions:
    """This rank's master weights and optimizer state.

    Args:
        engine: DeepSpeed's.
        parameters: the model's trainable ones that have elements, by name, each once.
    """

    def __init__(self, engine: Any, parameters: Mapping[str, Tensor]) -> None:
        self._zero = engine.optimizer
        self._stage = int(engine.zero_optimization_stage())
        self._fragments = {name: list(self._find(parameter)) for name, parameter in parameters.items()}
        self._lies_in = {name: self._partition_of(parameter) for name, parameter in parameters.items()}

    @property
    def flat(self) -> list[Tensor]:
        """The fp32 tensors that the optimizer steps, shape (elements,)."""
        name = "fp32_partitioned_groups_flat" if self._stage == STAGE_3 else "single_partition_of_fp32_groups"
        return list(getattr(self._zero, name))

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The optimizer's, by the tensors of `flat`."""
        return self._zero.optimizer.state  # type: ignore[no-any-return]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's parameter groups, with options as they are now."""
        return list(self._zero.optimizer.param_groups)

    def group_of(self, partition: int) -> int:
        """The parameter group that a flat tensor is of."""
        if self._stage != STAGE_3:
            return partition
        trained = self._zero.sub_group_to_group_id[partition]
        return int(self._zero.trainable_param_groups[trained]["_ds_source_param_group_id"])

    def fragments(self, name: str) -> list[Fragment]:
        """The pieces of a parameter that lie here; none where its elements are all on other ranks."""
        return self._fragments[name]

    def gradients(self) -> list[Tensor]:
        """Averaged gradients of this rank's partitions between backward and step; padding is zeros."""
        if self._offloaded:
            return [flat.grad for flat in self.flat if flat.grad is not None]
        found = self._zero.averaged_gradients.values()
        return [gradient for group in found if group is not None for gradient in group]

    @torch.no_grad()
    def pieces(self) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Of each parameter: its name, and what of master weight and gradient lies here, shape (elements,).

        Between backward and step; a gradient is None in a group that has none.
        """
        weights = [flat.detach() for flat in self.flat]
        gradients = [self._flat_gradient(partition) for partition in range(len(weights))]
        for name, fragments in self._fragments.items():
            if not fragments:
                # whether there is a gradient is the group's to say, as it is on ranks that have a piece
                partition = self._lies_in[name]
                nothing = weights[partition][:0]
                yield name, nothing, None if gradients[partition] is None else nothing
            for fragment in fragments:  # one, as a partition is a stretch of what it is cut from
                gradient = gradients[fragment.partition]
                piece = None if gradient is None else fragment.of(gradient)
                yield name, fragment.of(weights[fragment.partition]), piece

    @property
    def _offloaded(self) -> bool:
        return bool(self._zero.cpu_offload if self._stage != STAGE_3 else self._zero.offload_optimizer)

    def _flat_gradient(self, partition: int) -> Tensor | None:
        """Laid out as the flat tensor that it is of."""
        if self._offloaded:
            return self.flat[partition].grad
        parts = self._zero.averaged_gradients.get(partition)
        return torch.cat([part.reshape(-1) for part in parts]) if parts else None

    @torch.no_grad()
    def publish(self) -> None:
        """Make the model's weights what the master weights are, as after a step."""
        if self._stage != STAGE_3:
            self._zero.update_lp_params()
            return
        self._zero._partition_all_parameters()
        for partition in range(len(self.flat)):
            self._zero._reassign_or_swap_out_partitioned_parameters(partition)
        kept = self._zero.persistent_parameters
        if kept:
            kept[0].all_gather(kept)

    def _partition_of(self, parameter: Any) -> int:
        """Which flat tensor a parameter's pieces lie in, on this rank or another."""
        zero = self._zero
        if self._stage == STAGE_3:
            return int(zero.grad_position[zero.get_param_id(parameter)][0])
        groups = enumerate(zero.bit16_groups)
        return next(index for index, group in groups if any(each is parameter for each in group))

    def _find(self, parameter: Any) -> Iterator[Fragment]:
        if self._stage == STAGE_3:
            zero = self._zero
            partition, start, size = zero.grad_position[zero.get_param_id(parameter)]
            at = size * zero._get_param_partition_rank(parameter)
            size = min(size, parameter.ds_numel - at)
            if size > 0:
                yield Fragment(int(partition), int(start), int(at), int(size))
        elif parameter._hp_mapping is not None:
            whole = parameter._hp_mapping.lp_fragment_address
            here = parameter._hp_mapping.get_hp_fragment_address()
            group = parameter._hp_mapping.param_group_index
            yield Fragment(int(group), int(here.start), int(whole.start), int(here.numel))
