"""Facts of ranks, from a /proc made by hand and from recorded answers of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.agent.doctor import rank_sampler
from torchdeck.agent.doctor.arrival_watch import with_gpu
from torchdeck.agent.doctor.rank_facts import PlaceShare, RankFacts
from torchdeck.agent.doctor.rank_sampler import RankSampler
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.agent.gpus import of_gpu, parse_smi
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat
from torchdeck.contract.run_states import RankPhase

Write = Callable[[int, int, int, int], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes what process 7 has had: seconds without the processor, throttled, and of steal; major faults."""
    monkeypatch.setattr(rank_sampler, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(rank_sampler, "_FREQUENCY", tmp_path / "cpus")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for folder in ("7/task/7", "7/task/8", "cgroup/job", "cpus/cpu5/cpufreq"):
        (tmp_path / folder).mkdir(parents=True)

    def made(waited: int, throttled: int, steal: int, faults: int) -> None:
        numbers = ["0"] * 49
        numbers[9], numbers[36] = str(faults), "5"
        (tmp_path / "7/stat").write_text(f"7 (py ) thon) {' '.join(numbers)}")
        (tmp_path / "7/cgroup").write_text("0::/job\n")
        (tmp_path / "cgroup/job/cpu.stat").write_text(f"usage_usec 5\nthrottled_usec {throttled * 10**6}\n")
        (tmp_path / "7/task/7/schedstat").write_text(f"5 {waited * 10**9} 3\n")
        (tmp_path / "7/task/8/schedstat").write_text("5 7 3\n")
        (tmp_path / "stat").write_text(f"cpu  1 2 3 4 5 6 7 {steal * rank_sampler._TICKS} 0 0\ncpu0 1\n")
        (tmp_path / "cpus/cpu5/cpufreq/scaling_cur_freq").write_text("1200000\n")

    return made


def standing(activity: str, place: str, completed: int = 1) -> Standing:
    beat = RankHeartbeat(7, 1.0, completed=completed, activity=activity, place=place)
    return Standing(3, RankPhase.TRAINING, 0, 0.0, None, watched=False, pid=7, beat=beat)


def test_rates_and_shares(tmp_path: Path, write: Write) -> None:
    """Over ten seconds: the busiest thread counts, and steal is a share of all processors."""
    sampler = RankSampler(tmp_path)
    for second in range(11):
        write(4 * (second == 10), 3 * (second == 10), 8 * (second == 10), 50 * (second == 10))
        activity = ("waiting", "loading data", "", "")[second % 4]
        sampler.look({3: standing(activity, f"a.py:{second % 4} f")}, 100.0 + second)
    facts = sampler.facts(3, 1200)
    assert (facts.rank, facts.step) == (3, 1200)
    assert (facts.stolen, facts.throttled, facts.steal) == (0.4, 0.3, 0.2)
    assert (facts.faults, facts.frequency) == (5.0, 1200.0)
    assert facts.loading == pytest.approx(3 / 11, abs=0.001)
    assert {place.place for place in facts.places} == {"a.py:2 f", "a.py:3 f"}
    assert PlaceShare("a.py:2 f", 0.273) in facts.places


def test_the_start_of_a_program_is_not_its_training(tmp_path: Path) -> None:
    """It imports what it needs for seconds, before its first collective."""
    sampler = RankSampler(tmp_path)
    for second in range(11):
        sampler.look({3: standing("", "a.py:1 <module>", second // 9)}, 100.0 + second)
    sampler.look({3: standing("", "a.py:9 step")}, 111.0)
    assert sampler.facts(3, None).places == (
        PlaceShare("a.py:1 <module>", 0.667),
        PlaceShare("a.py:9 step", 0.333),
    )


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    """No such process, and a rank that was never seen."""
    sampler = RankSampler(tmp_path)
    for second in range(11):
        sampler.look({3: standing("", "")}, 100.0 + second)
    assert sampler.facts(3, None) == RankFacts(3, loading=0.0)
    assert sampler.facts(4, None) == RankFacts(4)


def test_a_gpus_series_are_its_ranks() -> None:
    """By nvidia-smi; what the driver does not tell is not known."""
    values = parse_smi("0, 99, 1, 2, 60, 690, 1980, 700, 16\n1, 99, 1, 2, 88, 400, 1100, [N/A], 8\n")
    facts = with_gpu(RankFacts(3), of_gpu(values, 1))
    assert (facts.gpu_clock, facts.gpu_temperature) == (1100.0, 88.0)
    assert (facts.gpu_power_limit, facts.pcie_width) == (None, 8.0)
    assert with_gpu(RankFacts(3), of_gpu(values, 2)) == RankFacts(3)
