"""`trainer.json`."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.files.trainer_file import TRAINER_NAME, TrainerFile, read_trainer_file

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def _file(**parts: Any) -> TrainerFile:
    empty: dict[str, Any] = {"position": {}, "scheduler": {}, "scaler": {}, "extra": {}}
    return TrainerFile(step=3, **{**empty, **parts}, model={"a": ((2, 3), "float32")}, optimizers=[])


@pytest.mark.long
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(), plain))
def test_plain_state_comes_back_as_it_was(tmp_path: Path, extra: dict[str, Any]) -> None:
    """Numbers, texts, lists and objects survive bit for bit, infinities included."""
    saved = _file(extra=extra)
    (tmp_path / TRAINER_NAME).write_bytes(saved.render())
    assert read_trainer_file(tmp_path) == saved


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {"b": [1, object()]}}, r"extra\.a\.b\[1\] is <object"),
        ({"a": (1, 2)}, r"extra\.a is \(1, 2\)"),
        ({1: 2}, "extra has the key 1"),
        ({"a": {2, 3}}, r"extra\.a is"),
    ],
)
def test_what_json_would_change_is_refused_by_name(value: Any, said: str) -> None:
    """A value that would come back as another is refused when it is saved, with where it stands."""
    with pytest.raises(CheckpointError, match=said):
        _file(extra=value).render()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"{", "not a checkpoint"), (b"{}", "not a checkpoint"), (b'{"v": 9}', "newer Torchdeck")],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """Half a file, another one, and one of a newer version get a sentence each."""
    (tmp_path / TRAINER_NAME).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        read_trainer_file(tmp_path)
