"""The sizes below its full one that a run may go on with: from ranges in the config to parts of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torchdeck.config.ranges import count_range
from torchdeck.config.schema import RunConfig
from torchdeck.plan.batch import other_batch, smaller_batch
from torchdeck.plan.groups import shard_groups
from torchdeck.plan.launch_plan import Batch, SmallerSize
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.prediction import Prediction
from torchdeck.plan.problems import PlanError, problem
from torchdeck.plan.rank_environment import rank_environment

PREDICTED = 16
"""Sizes that memory and data are predicted for; of more than these, the largest and the smallest."""
_THREADS = "OMP_NUM_THREADS"

Predict = Callable[[RunConfig, Sequence[NodeShare]], Prediction | None]


def smaller_sizes(
    config: RunConfig,
    shares: Sequence[NodeShare],
    batch: Batch | None,
    environ: Mapping[str, str],
    predict: Predict,
    standing: Sequence[str] = (),
) -> tuple[tuple[SmallerSize, ...], tuple[str, ...]]:
    """The sizes that a config's ranges allow, most ranks first; and what is to be said of them.

    Args:
        config: what is asked for.
        shares: every node's part at full size.
        batch: the arithmetic at full size; None for a script.
        environ: the launching shell's.
        predict: what a run of a config on shares is expected to need.
        standing: what is to be said of each of them.

    Raises:
        PlanError: nodes of a range have different numbers of ranks.
    """
    counts = _counts(config, shares)
    if not counts:
        return (), ()
    fitting = {size: shard for size in counts if (shard := _shard(config, shares, *size)) is not None}
    sizes, said = [], list[str]()
    for index, ((nodes, nproc), shard) in enumerate(fitting.items()):
        there = _shares(shares, nodes, nproc)
        smaller = None if batch is None else smaller_batch(batch, nodes * nproc)
        warning = "" if batch is None or smaller is None else other_batch(smaller, batch)
        said += [warning] if warning else []
        predicted = index < PREDICTED - 1 or index == len(fitting) - 1
        sizes.append(
            SmallerSize(
                nodes=nodes,
                nproc=nproc,
                batch=smaller,
                shard=shard,
                threads=_threads(config, shares, nproc, environ),
                warnings=(*standing, *([warning] if warning else ())),
                prediction=predict(_at(config, smaller), there) if predicted else None,
            )
        )
    return tuple(sizes), (*_uneven(counts, fitting), *said)


def _counts(config: RunConfig, shares: Sequence[NodeShare]) -> list[tuple[int, int]]:
    """(nodes, ranks on each) of every size below the full one."""
    distributed = config.distributed
    if not isinstance(distributed.nproc, str) and not isinstance(distributed.nodes, str):
        return []
    full = shares[0].nproc
    odd = next((share for share in shares if share.nproc != full), None)
    if odd is not None:
        wrong = (
            f"nodes of a range must have as many ranks each: {shares[0].node.name} has {full}, "
            f"{odd.node.name} has {odd.nproc}"
        )
        right = f"{min(share.nproc for share in shares)}, or machines that are alike"
        raise PlanError([problem("distributed.nproc", wrong, right)])
    least_nproc = count_range(distributed.nproc).least if isinstance(distributed.nproc, str) else full
    nodes = distributed.nodes
    least_nodes = count_range(nodes).least if isinstance(nodes, str) else len(shares)
    counts = [
        (count, nproc)
        for count in range(least_nodes, len(shares) + 1)
        for nproc in range(least_nproc, full + 1)
        if (count, nproc) != (len(shares), full)
    ]
    return sorted(counts, key=lambda size: (size[0] * size[1], size[0]), reverse=True)


def _shares(shares: Sequence[NodeShare], nodes: int, nproc: int) -> list[NodeShare]:
    return [replace(share, nproc=nproc, devices=share.devices[:nproc]) for share in shares[:nodes]]


def _shard(config: RunConfig, shares: Sequence[NodeShare], nodes: int, nproc: int) -> int | None:
    """Ranks of a group of hsdp, 1 under another strategy; None where the groups do not come out even."""
    if config.distributed.strategy != "hsdp" or config.run.recipe is None:
        return 1
    try:
        return shard_groups(_shares(shares, nodes, nproc), config.distributed.hsdp.shard).shard
    except PlanError:
        return None


def _threads(
    config: RunConfig, shares: Sequence[NodeShare], nproc: int, environ: Mapping[str, str]
) -> dict[str, int]:
    """OMP_NUM_THREADS by node where fewer ranks leave more cores to each."""
    if nproc == shares[0].nproc:
        return {}
    found = {}
    for share in shares:
        before, after = (
            rank_environment(part, config.run.env, environ, None)[_THREADS]
            for part in (share, replace(share, nproc=nproc))
        )
        if before != after:
            found[share.node.name] = int(after)
    return found


def _at(config: RunConfig, batch: Batch | None) -> RunConfig:
    """The config with the accumulation of another size."""
    if batch is None:
        return config
    training = config.training.model_copy(update={"accumulation": batch.accumulation})
    return config.model_copy(update={"training": training})


def _uneven(counts: Sequence[tuple[int, int]], fitting: Mapping[tuple[int, int], int]) -> list[str]:
    left_out = [str(nodes * nproc) for nodes, nproc in counts if (nodes, nproc) not in fitting]
    if not left_out:
        return []
    return [f"sizes of {', '.join(left_out)} ranks are left out: distributed.hsdp.shard does not divide them"]
