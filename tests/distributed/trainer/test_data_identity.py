"""Which data a checkpoint was trained on."""

import pytest

from torchdeck.data.order import PositionError
from torchdeck.distributed.trainer.training_data import DataIdentity


@pytest.mark.parametrize(
    "saved",
    [
        None,  # a checkpoint of an older Torchdeck
        {},
        {"size": 5, "fingerprint": ""},
        {"size": 5, "fingerprint": "a"},
        DataIdentity(5, "a").to_json(),
    ],
)
def test_what_is_not_said_is_not_compared(saved: object) -> None:
    """Checkpoints from before, and data without a fingerprint, continue."""
    DataIdentity(5, "a").check_same(saved)
    DataIdentity(5).check_same(saved)


@pytest.mark.parametrize(
    ("saved", "sentence"),
    [
        (DataIdentity(6, "a"), "was trained on 6 samples, and the training data has 5"),
        (DataIdentity(5, "b"), "was trained on data with fingerprint b, and the training data has a"),
    ],
)
def test_other_data_is_refused(saved: DataIdentity, sentence: str) -> None:
    """Another size, or another fingerprint of the same size."""
    with pytest.raises(PositionError, match=sentence):
        DataIdentity(5, "a").check_same(saved.to_json())
