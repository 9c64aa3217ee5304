"""A day of a healthy training in seconds: the real watch and judge, with simulated clock, ranks and /proc."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from torchdeck.agent.doctor import proc
from torchdeck.agent.doctor.evidence import Collective, Frame, Group, Kind, RankEvidence, Verdict
from torchdeck.agent.doctor.judge import judge
from torchdeck.agent.doctor.proc import Usage
from torchdeck.agent.doctor.stalls import Stall, StallWatch, Standing
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat
from torchdeck.contract.run_states import RankPhase

RANKS = range(4)
HANG_AFTER = 30.0
DAY = 24 * 3600
pytestmark = pytest.mark.long

NODES = dict.fromkeys(RANKS, "local")
GROUP = Group("0", tuple(RANKS), "default_pg")


@dataclass(frozen=True)
class Pause:
    """Something long that one rank does while the others wait for it, or all do."""

    least: int
    most: int
    """Seconds."""
    phase: RankPhase = RankPhase.TRAINING
    """Phase of a recipe's rank; a script reports none."""
    activity: str = ""
    """What the stack of a script's rank shows."""
    state: str = "S"
    """As in proc(5)."""
    cpu: float = 0.0
    """Processors in use: of the rank itself, or of its workers."""
    workers: bool = False
    moved: int = 0
    """Bytes per second, read or written."""
    everyone: bool = False


HEALTHY = {
    "first step": Pause(1200, 1200, RankPhase.COMPILING, "compiling", cpu=1.0, workers=True, everyone=True),
    "evaluation": Pause(60, 500, cpu=1.0),
    "save": Pause(40, 400, RankPhase.SAVING, "saving", "D", moved=20 << 20),
    "slow save": Pause(20, 110, RankPhase.SAVING, "saving"),
    "slow save to a file system": Pause(20, 110, RankPhase.SAVING, "saving", "D"),
    "compilation": Pause(40, 300, RankPhase.COMPILING, "compiling", cpu=1.0, workers=True, everyone=True),
    "data loading": Pause(40, 500, activity="loading data", cpu=0.7, workers=True),
    "download": Pause(40, 300, RankPhase.LOADING, moved=1 << 20),
    "slow steps": Pause(5, 25, everyone=True),
}
FILES = {
    "saving": "/torch/serialization.py",
    "compiling": "/torch/_dynamo/convert_frame.py",
    "loading data": "/torch/utils/data/dataloader.py",
}
"""Activity → where the stack shows it."""


@dataclass
class Cluster:
    """Four ranks on a simulated clock; every second the agent looks once."""

    recipe: bool
    seed: int
    now: float = 0.0
    step: int = 0
    cpu: dict[int, float] = field(default_factory=lambda: dict.fromkeys(RANKS, 0.0))
    own: dict[int, float] = field(default_factory=lambda: dict.fromkeys(RANKS, 0.0))
    moved: dict[int, int] = field(default_factory=lambda: dict.fromkeys(RANKS, 0))
    states: dict[int, str] = field(default_factory=dict)
    late: int = 0
    """Looks at which a rank was late, and all ranks were examined."""
    hangs: list[tuple[float, str, Verdict]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = StallWatch(HANG_AFTER)
        self.random = random.Random(self.seed)  # noqa: S311 - the same day each time

    def usage(self, pid: int) -> Usage:
        """What proc(5) tells of a rank's processes; pids are ranks + 1."""
        rank = pid - 1
        return Usage(self.cpu[rank], self.own[rank], 1 << 30, self.moved[rank])

    def state(self, pid: int | None) -> str:
        """State of a rank's process at the last look."""
        return self.states.get((pid or 0) - 1, "S")

    def train(self, seconds: int) -> None:
        """Steps of 0.5 s."""
        for _ in range(seconds):
            self.step += 2
            self._look("training", None, ())

    def freeze(self, seconds: int) -> None:
        """The whole machine sleeps; the agent's clock of awake seconds stands still with it."""
        self.now += 1.0
        self._look("freeze", None, (), beating=self.now + seconds)

    def pause(self, name: str, pause: Pause, seconds: int | None = None) -> None:
        """`pause` in rank 0, or in all ranks; the others wait in the next collective."""
        busy = tuple(RANKS) if pause.everyone else (0,)
        for _ in range(seconds or self.random.randint(pause.least, pause.most)):
            for rank in busy:
                self.cpu[rank] += pause.cpu
                self.own[rank] += 0.0 if pause.workers else pause.cpu
                self.moved[rank] += pause.moved
            self._look(name, pause, busy)
        self.step += 1

    def _look(self, name: str, pause: Pause | None, busy: tuple[int, ...], beating: float = 0.0) -> None:
        self.now += 1.0
        standings = {rank: self._standing(rank, pause, busy, beating) for rank in RANKS}
        self.states = dict.fromkeys(busy, pause.state) if pause is not None else {}
        stalls = self.watch.look(standings, self.now)
        if any(stall.late for stall in stalls.values()):
            self.late += 1
            verdict = judge(
                {rank: self._evidence(standings[rank], stalls[rank], busy) for rank in RANKS}, NODES
            )
            if verdict.is_hang:
                self.hangs.append((self.now, name, verdict))

    def _standing(self, rank: int, pause: Pause | None, busy: tuple[int, ...], beating: float) -> Standing:
        acting = pause is not None and rank in busy
        enqueued = self.step + (pause is not None and not acting)
        computes = acting and pause is not None and pause.cpu > 0 and not pause.workers
        beat = RankHeartbeat(rank + 1, beating or 1 + self.now, enqueued, self.step, 1, computes=computes)
        if not self.recipe:
            beat = beat._replace(activity=pause.activity if acting and pause is not None else "")
            return Standing(rank, RankPhase.STARTING, 0, 0.0, None, watched=False, pid=rank + 1, beat=beat)
        phase = pause.phase if acting and pause is not None else RankPhase.TRAINING
        reported = float(self.step)
        return Standing(rank, phase, self.step, reported, 0.5, watched=True, pid=rank + 1, beat=beat)

    def _evidence(self, standing: Standing, stall: Stall, busy: tuple[int, ...]) -> RankEvidence:
        rank, phase = standing.rank, standing.phase.value
        calls = [Collective("0", self.step, "gloo:all_reduce", "[[8]]", "Float", done=True)]
        if busy and rank not in busy:
            calls.append(Collective("0", self.step + 1, "gloo:all_reduce", "[[8]]", "Float"))
        state, activity = self.state(rank + 1), "" if standing.beat is None else standing.beat.activity
        frames = (Frame(FILES[activity], 1, "save", calls=True),) if activity else ()
        return RankEvidence(
            rank, rank + 1, state, blocked=state == "D", phase=phase, still=stall.still, limit=stall.limit,
            known=True, beating=True, working=stall.working, cpu=stall.cpu, source="rank", frames=frames,
            groups=(GROUP,), collectives=tuple(calls),
        )  # fmt: skip


@pytest.fixture(params=[True, False], ids=["recipe", "script"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(request.param, seed=17)
    monkeypatch.setattr(proc, "usage", made.usage)
    monkeypatch.setattr(proc, "state", made.state)
    return made


def test_a_healthy_day_has_no_false_alarm(cluster: Cluster) -> None:
    """24 h of long evaluations, saves, compilations, data loading, slow steps and freezes of the machine.

    The first step of each shape is compiled for 20 minutes.
    """
    names = tuple(HEALTHY)
    cluster.pause("first step", HEALTHY["first step"])
    while cluster.now < DAY:
        cluster.train(cluster.random.randint(60, 600))
        name = cluster.random.choice(names)
        cluster.pause(name, HEALTHY[name])
        if cluster.random.random() < 0.1:
            cluster.freeze(cluster.random.randint(5, 600))
    assert cluster.hangs == []
    assert cluster.late > 1000, "pauses were examined and found to be work"


def test_a_hang_in_such_a_day_is_seen(cluster: Cluster) -> None:
    """After two hours of the same: rank 0 does nothing, and the others wait for it."""
    names = [name for name in HEALTHY if name != "slow steps"]
    while cluster.now < DAY / 12:
        cluster.train(cluster.random.randint(60, 600))
        name = cluster.random.choice(names)
        cluster.pause(name, HEALTHY[name])
    assert cluster.hangs == []
    begun = cluster.now
    cluster.pause("hang", Pause(0, 0), 4000)
    seen, name, verdict = cluster.hangs[0]
    assert (name, verdict.rank) == ("hang", 0)
    assert verdict.kind in (Kind.ELSEWHERE, Kind.ABSENT)
    assert seen - begun < (HANG_AFTER + 5 if cluster.recipe else 5 * 500 + 60)
