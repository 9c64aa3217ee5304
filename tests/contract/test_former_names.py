"""Metrics of the version before are read under the names of this one."""

from torchdeck.contract.metrics.former_names import current_name, current_names
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.trainers.metric_roles import VALIDATION_LOSS, Roles


def test_names_of_evaluations() -> None:
    """Only the beginning of a name changes, and no name occurs twice."""
    assert current_name("heldout_loss") == "validation_loss"
    assert current_name("my_heldout_loss") == "my_heldout_loss"
    assert current_names(["loss", "heldout_loss"]) == ("loss", "validation_loss")
    assert current_names(["heldout_loss", "validation_loss"]) == ("heldout_loss", "validation_loss")


def test_names_in_settings() -> None:
    """The metric that decides which checkpoints are kept, and roles of metrics, may have either name."""
    rule = Retention(keep_best=1, best_metric="heldout_loss")
    assert rule.best({1: {"validation_loss": 2.0}, 2: {"validation_loss": 1.0}}) == [2, 1]
    assert Roles({"heldout_loss": "score"}).role_of("score") == VALIDATION_LOSS
    assert Roles().role_of("heldout_loss") == VALIDATION_LOSS
