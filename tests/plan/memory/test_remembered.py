"""What is worked out of a profile is worked out once, and of that profile alone."""

from dataclasses import replace

import pytest

from support.values.small_profile import profile
from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.plan.memory.peak import predict_peak
from torchdeck.plan.memory.remembered import KEPT, remembered
from torchdeck.plan.memory.spec import StrategySpec


def test_the_same_question_is_answered_once() -> None:
    model, asked = profile(), list[int]()

    def work() -> None:
        asked.append(1)

    for _ in range(3):
        assert remembered(model, "nothing", work) is None
    assert len(asked) == 1


def test_only_so_many_answers_are_kept() -> None:
    model = profile()
    for number in range(3 * KEPT):
        assert remembered(model, number, lambda number=number: number) == number  # type: ignore[misc]
        assert len(model.worked_out) <= KEPT
    assert remembered(model, 0, lambda: "anew") == "anew"


def test_what_fails_is_tried_again() -> None:
    model = profile()

    def fails() -> int:
        raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        remembered(model, "a", fails)
    assert remembered(model, "a", lambda: 1) == 1


def test_another_profile_is_asked_for_itself() -> None:
    model, spec = profile(), StrategySpec("fsdp", 4, shard=4)
    before = predict_peak(model, spec)
    assert predict_peak(model, spec) is before
    smaller = replace(model, parameters=model.parameters[:1])
    assert not smaller.worked_out
    assert predict_peak(smaller, spec).highest.total < before.highest.total
    assert predict_peak(model, replace(spec, accumulation=2)) != before


def test_what_was_worked_out_is_no_part_of_a_profile() -> None:
    model = profile()
    predict_peak(model, StrategySpec("fsdp", 4, shard=4))
    assert model.worked_out
    assert "worked_out" not in model.to_json()
    assert not ModelProfile.from_json(model.to_json()).worked_out
