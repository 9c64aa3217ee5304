"""Named slots in texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.contract.plan.slots import SLOTS, UnknownSlotError, escape, fill, slot, split

TEXTS = st.text(st.sampled_from("@{}ab_/ :") | st.characters(codec="utf-8"))


@settings(deadline=None)
@given(TEXTS)
def test_escaped_text_arrives_unchanged(text: str) -> None:
    """What a person wrote is the same after filling, byte for byte."""
    assert fill(escape(text), {}) == text


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(sorted(SLOTS)))))
def test_split_gives_back_literals_and_slots(parts: list[tuple[str, str]]) -> None:
    """Joining the pieces, slots by their values, is what filling gives."""
    values = {name: f"<{name}>" for name in SLOTS}
    # a slot stands after a separator, as planners write them: an @ right before it would be an escape
    text = "".join(f"{escape(literal)}/{slot(name)}" for literal, name in parts)
    assert "".join(values[name] if name else literal for literal, name in split(text)) == fill(text, values)


def test_a_slot_without_a_value_is_refused() -> None:
    """Filling never leaves a slot behind in silence."""
    with pytest.raises(UnknownSlotError, match="port"):
        fill(slot("port"), {"run_id": "x"})


@pytest.mark.parametrize("text", ["@{nonsense}", "@{port", "x@{"])
def test_what_is_no_slot_is_refused(text: str) -> None:
    """A slot that does not exist, or is not closed, is an error of whoever made the plan."""
    with pytest.raises(UnknownSlotError):
        split(text)
    with pytest.raises(UnknownSlotError):
        fill(text, {"port": "1"})


def test_only_known_slots_can_be_named() -> None:
    """A planner cannot invent a slot that no one fills."""
    with pytest.raises(UnknownSlotError, match="run_dir"):
        slot("rundir")
