"""What a run is expected to need and use, from the profile of its model and the plan of its data."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.config.schema import RunConfig
from torchdeck.contract.plan.model_profile import NO_BLOCKS, ONE_UNIT, ModelProfile
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.plan.fitting import fitted, spec_of
from torchdeck.plan.known import Known
from torchdeck.plan.memory.spec import FULLY_SHARDED
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.predictions.predict_data import data_notes, predict_data


def predict(config: RunConfig, shares: Sequence[NodeShare], backend: str, known: Known) -> Prediction:
    """All that can be said of a run before it starts; parts that nothing is known of are empty.

    Args:
        config: what is asked for.
        shares: its ranks on every node.
        backend: `gloo` or `nccl`, decided.
        known: what was found out.

    Raises:
        PlanError: what is known does not fit the config.
    """
    profile = known.profile
    world_size = sum(share.nproc for share in shares)
    # what a script reads is its own affair
    data = None if config.run.recipe is None else predict_data(config.training, world_size, known)
    scarce = () if data is None else data_notes(data, config.training, world_size, known)
    memory, notes = fitted(config, spec_of(config, shares, backend, known), shares, known)
    return Prediction(
        source="" if profile is None else profile.source,
        memory=memory,
        data=data,
        notes=(*known.notes, *scarce, *notes, *(() if profile is None else _told(profile, config))),
    )


def _told(profile: ModelProfile, config: RunConfig) -> tuple[str, ...]:
    """Notes of `profile` that matter to this run."""
    idle = set()
    if config.distributed.strategy not in FULLY_SHARDED:
        idle.add(ONE_UNIT)
    if not config.training.activation_checkpointing:
        idle.add(NO_BLOCKS)
    return tuple(note for note in profile.notes if note not in idle)
