"""Memory of every rank, predicted from a model's profile. Pure."""

from torchdeck.plan.memory.peak import PredictedPeak, predict_peak
from torchdeck.plan.memory.predict import Compared, compare, memory_notes, predict_memory, verdict
from torchdeck.plan.memory.replay import UntracedError
from torchdeck.plan.memory.spec import StrategySpec, spec_from
from torchdeck.plan.memory.state import StateBytes, sharded_state
from torchdeck.plan.memory.suggest import Suggestion, suggest

__all__ = [
    "Compared",
    "PredictedPeak",
    "StateBytes",
    "StrategySpec",
    "Suggestion",
    "UntracedError",
    "compare",
    "memory_notes",
    "predict_memory",
    "predict_peak",
    "sharded_state",
    "spec_from",
    "suggest",
    "verdict",
]
