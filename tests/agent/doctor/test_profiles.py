"""Profiles as a node's agent follows them: the rank's own, py-spy's, or the reason why there is none."""

import json
from pathlib import Path

import pytest

from support.waiting import wait_until
from torchdeck.agent.doctor.profiling.profiles import SLACK, Profiles
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat
from torchdeck.contract.doctor.rank_profile import ProfileOrder, parse_order
from torchdeck.contract.layout import AttemptLayout, RunLayout
from torchdeck.contract.run_states import RankPhase

NAME = "1-profile-ab"


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptLayout:
    found = RunLayout(tmp_path).attempt(1)
    found.rank(0).root.mkdir(parents=True)
    return found


def standing(pid: int | None = 1, *, beats: bool = True) -> Standing:
    beat = RankHeartbeat(1, 0.0) if beats else None
    return Standing(0, RankPhase.RUNNING, 0, 0.0, None, watched=True, pid=pid, beat=beat)


def why(path: Path) -> str:
    return str(json.loads(path.read_text())["why"])


def without_py_spy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_a_rank_is_asked_and_answers(attempt: AttemptLayout) -> None:
    """It finds the folder and the seconds; nothing more is done once it has answered."""
    profiles, files = Profiles(attempt), attempt.profile(NAME)
    profiles.begin(NAME, [standing()], 5.0, 0.0)
    assert parse_order(attempt.rank(0).profile.read_text()) == ProfileOrder(files.root, 5.0)
    profiles.poll(1.0)
    files.summary(0).write_text("{}")
    profiles.poll(2.0)
    profiles.poll(5.0 + SLACK + 1.0)
    assert not files.failure(0).exists()


def test_another_name_is_no_profile(attempt: AttemptLayout) -> None:
    """It would be a folder of its own choice."""
    Profiles(attempt).begin("../1-profile-ab", [standing()], 5.0, 0.0)
    assert not attempt.rank(0).profile.exists()


def test_a_rank_that_does_not_answer_is_given_up(attempt: AttemptLayout) -> None:
    profiles, files = Profiles(attempt), attempt.profile(NAME)
    profiles.begin(NAME, [standing()], 5.0, 0.0)
    profiles.poll(5.0 + SLACK - 1.0)
    assert not files.failure(0).exists()
    profiles.poll(5.0 + SLACK + 1.0)
    assert "did not answer in time" in why(files.failure(0))


def test_without_py_spy_the_reason_is_that_of_the_rank(
    attempt: AttemptLayout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also if the rank has no heartbeat, and is not asked at all."""
    without_py_spy(monkeypatch, tmp_path)
    profiles, files = Profiles(attempt), attempt.profile(NAME)
    profiles.begin(NAME, [standing()], 5.0, 0.0)
    files.refusal(0).write_text('{"why": "the program uses torch.profiler itself"}')
    profiles.poll(1.0)
    assert why(files.failure(0)).startswith("the program uses torch.profiler itself; py-spy, which")
    other = attempt.profile("2-profile-ab")
    attempt.rank(0).profile.unlink()
    profiles.begin("2-profile-ab", [standing(beats=False)], 5.0, 0.0)
    profiles.poll(1.0)
    assert "no heartbeat" in why(other.failure(0))
    assert not attempt.rank(0).profile.exists()


@pytest.mark.processes
def test_py_spy_samples_a_rank_that_cannot(
    attempt: AttemptLayout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its file has its name once it is complete; a py-spy that fails is reported."""
    program = tmp_path / "py-spy"
    program.write_text(
        '#!/bin/sh\n[ "$1 $3 $4 $7" = "record --format speedscope --duration" ] || exit 9\n'
        '[ "${12}" = 77 ] || exit 1\necho "{}" > "${10}"\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    profiles, files = Profiles(attempt), attempt.profile(NAME)
    profiles.begin(NAME, [standing(77, beats=False)], 0.5, 0.0)

    def over() -> bool:
        profiles.poll(1.0)
        return any(path.exists() for path in (files.samples(0), files.failure(0)))

    wait_until(over, 20, "an answer")
    assert files.samples(0).read_text() == "{}\n", list(files.root.iterdir())
    files.samples(0).unlink()
    profiles.begin(NAME, [standing(78, beats=False)], 0.5, 0.0)
    wait_until(over, 20, "a failure")
    assert "py-spy ended with 1: it may need the right to ptrace" in why(files.failure(0))
