"""What a run is expected to need and use, from the profile of its model and the plan of its data."""

from __future__ import annotations

from torchdeck.config.schema import RunConfig
from torchdeck.plan.known import Known
from torchdeck.plan.predict_data import predict_data
from torchdeck.plan.prediction import Prediction


def predict(config: RunConfig, world_size: int, known: Known) -> Prediction:
    """All that can be said of a recipe run before it starts; parts that nothing is known of are empty.

    Args:
        config: a recipe run's.
        world_size: its ranks.
        known: what was found out.

    Raises:
        PlanError: what is known does not fit the config.
    """
    profile = known.profile
    return Prediction(
        source="" if profile is None else profile.source,
        data=predict_data(config.training, world_size, known),
        notes=(*known.notes, *(() if profile is None else profile.notes)),
    )
