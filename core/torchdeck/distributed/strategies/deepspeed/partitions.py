"""Layout of each parameter's pieces in DeepSpeed's flat fp32 partitions, uniform for all stages of ZeRO.

Stages 1 and 2 cut the concatenation of a parameter group's parameters into equal parts, one per rank
(`stage_1_and_2.py`). Stage 3 cuts every parameter this way (`stage3.py`, `set_grad_positions`). Derived from
the source of DeepSpeed 0.19.8. Its own functions for this (`deepspeed.utils.safe_get_full_fp32_param` and
similar) give every rank the whole tensor. They cannot set optimizer state before the first step has created
it.
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
    """Piece of a parameter held by this rank."""

    partition: int
    """Index of the flat tensor that holds it."""
    start: int
    """Offset of its first element in the flat tensor."""
    at: int
    """Offset of its first element in the flattened parameter."""
    size: int
    """Number of elements."""

    def of(self, flat: Tensor) -> Tensor:
        """Return this piece of a flat tensor."""
        return flat.narrow(0, self.start, self.size)

    def of_whole(self, parameter: Tensor) -> Tensor:
        """Return this piece of the whole parameter."""
        return parameter.reshape(-1).narrow(0, self.at, self.size)


class Partitions:
    """This rank's master weights and optimizer state.

    Args:
        engine: DeepSpeed's engine.
        parameters: the model's non-empty trainable parameters by name, each once.
    """

    def __init__(self, engine: Any, parameters: Mapping[str, Tensor]) -> None:
        self._zero = engine.optimizer
        self._stage = int(engine.zero_optimization_stage())
        self._fragments = {name: list(self._find(parameter)) for name, parameter in parameters.items()}
        self._lies_in = {name: self._partition_of(parameter) for name, parameter in parameters.items()}

    @property
    def flat(self) -> list[Tensor]:
        """Return the fp32 tensors that the optimizer steps, shape (elements,)."""
        name = "fp32_partitioned_groups_flat" if self._stage == STAGE_3 else "single_partition_of_fp32_groups"
        return list(getattr(self._zero, name))

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """Return the optimizer's state, by the tensors of `flat`."""
        return self._zero.optimizer.state  # type: ignore[no-any-return]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Return the optimizer's parameter groups with their current options."""
        return list(self._zero.optimizer.param_groups)

    def group_of(self, partition: int) -> int:
        """Return the parameter group of a flat tensor."""
        if self._stage != STAGE_3:
            return partition
        trained = self._zero.sub_group_to_group_id[partition]
        return int(self._zero.trainable_param_groups[trained]["_ds_source_param_group_id"])

    def fragments(self, name: str) -> list[Fragment]:
        """Return the pieces of a parameter on this rank; empty if all its elements are on other ranks."""
        return self._fragments[name]

    def gradients(self) -> list[Tensor]:
        """Return averaged gradients of this rank's partitions between backward and step; padding is zeros."""
        if self._offloaded:
            return [flat.grad for flat in self.flat if flat.grad is not None]
        found = self._zero.averaged_gradients.values()
        return [gradient for group in found if group is not None for gradient in group]

    @torch.no_grad()
    def pieces(self) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Yield each parameter's name with this rank's piece of master weight and gradient, shape
        (elements,).

        Valid between backward and step. The gradient is None if its group has none.
        """
        weights = [flat.detach() for flat in self.flat]
        gradients = [self._flat_gradient(partition) for partition in range(len(weights))]
        for name, fragments in self._fragments.items():
            if not fragments:
                # the group decides whether there is a gradient, as on ranks that hold a piece
                partition = self._lies_in[name]
                nothing = weights[partition][:0]
                yield name, nothing, None if gradients[partition] is None else nothing
            for fragment in fragments:  # at most one: a partition is contiguous
                gradient = gradients[fragment.partition]
                piece = None if gradient is None else fragment.of(gradient)
                yield name, fragment.of(weights[fragment.partition]), piece

    @property
    def _offloaded(self) -> bool:
        return bool(self._zero.cpu_offload if self._stage != STAGE_3 else self._zero.offload_optimizer)

    def _flat_gradient(self, partition: int) -> Tensor | None:
        """Return the gradient laid out as its flat tensor."""
        if self._offloaded:
            return self.flat[partition].grad
        parts = self._zero.averaged_gradients.get(partition)
        return torch.cat([part.reshape(-1) for part in parts]) if parts else None

    @torch.no_grad()
    def publish(self) -> None:
        """Copy the master weights into the model's weights, as after a step."""
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
        """Return the index of the flat tensor that holds a parameter's pieces, on this rank or another."""
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
