"""New reports of this node's ranks on when they reached their collectives, with the state of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchdeck.agent.doctor.rank_facts import RankFacts, StragglerReport
from torchdeck.agent.doctor.rank_sampler import RankSampler
from torchdeck.agent.doctor.stalls import Standing
from torchdeck.contract.doctor.arrivals import read_arrivals
from torchdeck.contract.layout import AttemptLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan


class ArrivalWatch:
    """Looks once per second."""

    def __init__(self, attempt: AttemptLayout) -> None:
        self._attempt = attempt
        self._sampler = RankSampler()
        self._versions: dict[int, tuple[int, int]] = {}

    def look(
        self, standings: Mapping[int, Standing], gpus: Mapping[int, Mapping[str, float]], now: float
    ) -> tuple[StragglerReport, ...]:
        """Return the reports that are new.

        Args:
            standings: living ranks.
            gpus: rank → what its GPU reports, without the prefix of the GPU.
            now: seconds of the agent's clock.
        """
        self._sampler.look(standings, now)
        found = []
        for rank, standing in standings.items():
            path = self._attempt.rank(rank).arrivals
            version = _version(path)
            if version is None or self._versions.get(rank) == version:
                continue
            self._versions[rank] = version
            arrivals = read_arrivals(path)
            if arrivals is not None:
                step = standing.step if standing.step > 0 else None
                facts = with_gpu(self._sampler.facts(rank, step), gpus.get(rank, {}))
                found.append(StragglerReport(facts, arrivals))
        return tuple(found)


def with_gpu(facts: RankFacts, gpu: Mapping[str, float]) -> RankFacts:
    """Return the facts with what the rank's GPU reports."""
    return facts._replace(
        gpu_clock=gpu.get("clock_mhz"),
        gpu_temperature=gpu.get("temperature_c"),
        gpu_power_limit=gpu.get("power_limit_w"),
        pcie_width=gpu.get("pcie_width"),
    )


def gpus_of_ranks(plan: LaunchPlan, node: str) -> dict[int, int]:
    """Return rank → number of its GPU on `node`; without ranks on the CPU."""
    placed = [(found.rank, found.device.rpartition(":")) for found in plan.ranks if found.node == node]
    return {rank: int(number) for rank, (kind, _, number) in placed if kind == "cuda" and number.isdecimal()}


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
