"""The doctor on one node: which ranks stall, and the evidence on them when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchdeck.agent.doctor.arrival_watch import ArrivalWatch
from torchdeck.agent.doctor.examiner import Examined, Examiner
from torchdeck.agent.doctor.profiling.profiles import Profiles
from torchdeck.agent.doctor.rank_facts import StragglerReport
from torchdeck.agent.doctor.stalls import Stall, StallWatch, Standing
from torchdeck.agent.gpus import of_gpu
from torchdeck.agent.own_clock import OwnClock
from torchdeck.contract.layout import AttemptLayout


class NodeDoctor:
    """Watches the ranks of one attempt on this node."""

    def __init__(
        self,
        attempt: AttemptLayout,
        hang_after: float,
        clock: OwnClock,
        environ: Mapping[str, str],
        gpus: Mapping[int, int],
    ) -> None:
        """Watch ranks that were started with `environ`; `gpus`: rank → number of its GPU."""
        self._stall_watch = StallWatch(hang_after)
        self._examiner = Examiner(attempt, environ)
        self._arrivals = ArrivalWatch(attempt)
        self._gpus = gpus
        self._profiles = Profiles(attempt)
        self._clock = clock
        self._standings: Mapping[int, Standing] = {}
        self._stalls: Mapping[int, Stall] = {}
        self._late: tuple[int, ...] = ()

    def look(self, standings: Mapping[int, Standing]) -> tuple[int, ...] | None:
        """Once per second; returns the ranks that are late if these are others than before."""
        self._standings = standings
        self._stalls = self._stall_watch.look(standings, self._clock())
        self._examiner.looked(self._clock())
        late = tuple(sorted(rank for rank, stall in self._stalls.items() if stall.late))
        if late == self._late:
            return None
        self._late = late
        return late

    def arrived(
        self, standings: Mapping[int, Standing], series: Mapping[str, float]
    ) -> tuple[StragglerReport, ...]:
        """Once per second; returns new reports of ranks on when they reached their collectives.

        Args:
            standings: living ranks.
            series: of the node's GPUs, as `gpu_sampler` names them.
        """
        gpus = {rank: of_gpu(series, number) for rank, number in self._gpus.items()}
        return self._arrivals.look(standings, gpus, self._clock())

    def examine(self, name: str) -> None:
        """Begin to collect the evidence on all ranks of this node."""
        self._examiner.begin(name, self._standings, self._stalls, self._clock())

    def profile(self, name: str, ranks: Sequence[int], seconds: float) -> None:
        """Begin to profile those of `ranks` that run on this node."""
        chosen = [self._standings[rank] for rank in ranks if rank in self._standings]
        self._profiles.begin(name, chosen, seconds, self._clock())

    def poll(self, exits: Mapping[int, int]) -> Examined | None:
        """Several times per second; returns the evidence once it is complete."""
        self._profiles.poll(self._clock())
        return self._examiner.poll(self._standings, self._stalls, exits, self._clock())

    def close(self) -> None:
        """End what was started for an examination."""
        self._examiner.close()
        self._profiles.close()
