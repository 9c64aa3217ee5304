"""Phases and outcomes are the texts that files have."""

import json

import pytest

from torchdeck.contract import run_states
from torchdeck.contract.run_states import GangPhase, Outcome, TextEnum

KINDS = [kind for kind in vars(run_states).values() if isinstance(kind, type) and issubclass(kind, TextEnum)]


@pytest.mark.parametrize("member", [member for kind in KINDS for member in kind])
def test_a_member_is_its_text(member: TextEnum) -> None:
    """In a file, in a sentence and compared, whatever the version of Python."""
    assert json.dumps({"is": member}) == f'{{"is": "{member.value}"}}'
    assert f"{member}" == f"{member!s}" == member.value
    assert {member: 1}[member.value] == 1
    assert type(member).read(member.value, next(iter(type(member)))) is member


def test_what_a_file_has_wrong_is_the_default() -> None:
    """A damaged or newer journal can be read."""
    assert Outcome.read("exploded", Outcome.FAILED) is Outcome.FAILED
    assert Outcome.read(None, Outcome.FAILED) is Outcome.FAILED
    assert Outcome.read([1], Outcome.STOPPED) is Outcome.STOPPED


def test_phases_with_an_attempt() -> None:
    """Between its launch and its verdict."""
    assert [phase for phase in GangPhase if phase.has_attempt] == ["starting", "running", "stopping"]
