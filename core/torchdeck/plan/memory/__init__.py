"""Memory of every rank, predicted from a model's profile. Pure."""

from torchdeck.plan.memory.spec import StrategySpec, spec_from
from torchdeck.plan.memory.state import StateBytes, sharded_state

__all__ = ["StateBytes", "StrategySpec", "sharded_state", "spec_from"]
