"""Tensors, arrays and data sets as data sets; cuts of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ChainDataset, DataLoader, TensorDataset

from torchdeck.distributed.batches import samples_of
from torchdeck.distributed.fit.datasets import as_dataset, collate, split


def test_rows_of_tensors_are_what_default_collate_makes_of_samples() -> None:
    x, y = torch.randn(7, 2), torch.arange(7)
    in_rows, one_by_one = (as_dataset((x, x * 2), y, in_rows=kind) for kind in (True, False))
    found, wanted = (collate(samples_of(data, [5, 0, 5])) for data in (in_rows, one_by_one))
    assert all(map(torch.equal, found, wanted))
    assert torch.equal(found[2], torch.tensor([5, 0, 5]))


def test_arrays_of_numpy_have_the_type_of_weights() -> None:
    """float64 becomes float32, whole numbers stay; one that is read-only is copied, without a warning."""
    x = np.ones((3, 2))
    x.flags.writeable = False
    inputs, targets = as_dataset({"x": x}, np.arange(3), in_rows=False)[1]
    assert inputs["x"].dtype == torch.float32
    assert targets.dtype == torch.int64


@pytest.mark.parametrize(
    ("x", "y", "error", "says"),
    [
        pytest.param(
            DataLoader(TensorDataset(torch.ones(2))), None, TypeError, "give its data set", id="loader"
        ),
        pytest.param(ChainDataset([]), None, TypeError, "map-style", id="iterable"),
        pytest.param(iter([]), None, TypeError, "map-style", id="iterator"),
        pytest.param(torch.ones(3), torch.ones(4), ValueError, "3, 4 samples", id="lengths"),
        pytest.param(torch.tensor(1.0), None, ValueError, "no dimensions", id="scalar"),
        pytest.param([1, 2], torch.ones(2), TypeError, "x is list", id="list"),
    ],
)
def test_what_is_no_data_is_refused(x: object, y: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        as_dataset(x, y, in_rows=True)


@given(st.integers(2, 300), st.floats(0.001, 0.999), st.integers(0, 2**63))
def test_a_split_has_every_sample_once_and_is_the_seeds(size: int, share: float, seed: int) -> None:
    data = as_dataset(torch.arange(size), in_rows=True)
    parts = [split(data, share, seed) for _ in range(2)]
    training, validation = ([int(part[i]) for i in range(len(part))] for part in parts[0])
    assert sorted(training + validation) == list(range(size))
    assert training
    assert abs(len(validation) - size * share) <= 1
    assert [int(parts[1][1][i]) for i in range(len(validation))] == validation
    rows = samples_of(parts[0][1], range(len(validation)))
    assert collate(rows).tolist() == validation


def test_other_splits_have_other_fingerprints() -> None:
    """A checkpoint must not continue with what was held out from it."""
    data = as_dataset(torch.arange(20), in_rows=True)
    names = {part.fingerprint for seed in (0, 1) for part in split(data, 0.5, seed)}  # type: ignore[attr-defined]
    assert len(names) == 4


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 3])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="validation_split is"):
        split(as_dataset(torch.arange(20), in_rows=True), share, 0)
