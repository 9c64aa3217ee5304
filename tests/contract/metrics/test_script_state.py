"""script.json: a state is read as written; damaged or hostile content is no state, or less of one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.metrics.script_state import Origin, ScriptState, read_script_state, write_script_state
from torchdeck.contract.run_states import RankPhase


def test_a_state_is_read_as_written(tmp_path: Path) -> None:
    """All fields, and none of them."""
    path = tmp_path / "script.json"
    assert read_script_state(path) is None
    for state in (
        ScriptState(),
        ScriptState(
            7, 70, 0.5, RankPhase.EVALUATING, 2.25, 1e9, {"loss": Origin("file", "trainer_state.json")}
        ),
    ):
        write_script_state(path, state)
        assert read_script_state(path) == state


@given(content=st.binary(max_size=200) | st.sampled_from([b"[]", b'{"v": 1}', b'{"v": 9, "step": 4}']))
def test_what_is_damaged_has_no_step(content: bytes, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]  # pytest's
    """Nothing raises."""
    path = tmp_path_factory.getbasetemp() / "script.json"
    path.write_bytes(content)
    state = read_script_state(path)
    assert state is None or state.step is None


def test_values_of_the_wrong_type_are_left_out(tmp_path: Path) -> None:
    """Also numbers that no step can be, and layers that do not exist."""
    path = tmp_path / "script.json"
    path.write_text(
        '{"v": 1, "step": -4, "total": true, "epoch": "one", "phase": "asleep", "rate": 2.0,'
        ' "origins": {"step": ["nowhere", "x"], "loss": ["file", "metrics.csv"], "other": ["file", "x"]}}'
    )
    assert read_script_state(path) == ScriptState(rate=2.0, origins={"loss": Origin("file", "metrics.csv")})
