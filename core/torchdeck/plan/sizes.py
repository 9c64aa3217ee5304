"""Smaller sizes with which a run may continue: from ranges in the config to sections of the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torchdeck.config.distributed import Distributed
from torchdeck.config.schema import RunConfig
from torchdeck.config.values.numbers import count_range
from torchdeck.contract.plan.elastic import Elastic, Place, smaller_plan
from torchdeck.contract.plan.launch_plan import AbsentNode, Batch, LaunchPlan, SmallerSize
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.plan.batch import other_batch, smaller_batch
from torchdeck.plan.check import PlanError, problem
from torchdeck.plan.node_commands import rank_environment
from torchdeck.plan.placement import NodeShare

MOST = 64
"""Largest number of sizes in a plan: the largest, and the smallest."""
SAID = 8
"""Largest number of sizes named in a warning; each attempt reports its own."""
PREDICTED = 16
"""Number of sizes for which memory and data are predicted; beyond it the largest and the smallest."""
_THREADS = "OMP_NUM_THREADS"

Predict = Callable[[RunConfig, Sequence[NodeShare]], Prediction | None]


def smaller_sizes(
    config: RunConfig,
    shares: Sequence[NodeShare],
    batch: Batch | None,
    environ: Mapping[str, str],
    predict: Predict,
    standing: Sequence[str] = (),
    spares: Sequence[NodeShare] = (),
) -> tuple[tuple[SmallerSize, ...], tuple[str, ...]]:
    """Return the sizes that a config's ranges allow, most ranks first, and notes on them.

    Args:
        config: config of the run.
        shares: every node's share at full size.
        batch: batch arithmetic at full size; None for a script.
        environ: environment of the launching shell.
        predict: prediction for a run of a config on shares.
        standing: notes that apply to each of them.
        spares: shares of the spare nodes.

    Raises:
        PlanError: the data does not fit a size.
    """
    counts = _counts(config, shares)
    possible = [(size, shard) for size in counts if (shard := _shard(config, *size)) is not None]
    chosen = possible if len(possible) <= MOST else [*possible[: MOST - 1], possible[-1]]
    all_shares = [*shares, *spares]
    threads = {
        nproc: _threads(config, all_shares, nproc, environ) for nproc in {size[1] for size, _ in chosen}
    }
    sizes, said = [], list[str]()
    for index, ((nodes, nproc), shard) in enumerate(chosen):
        smaller = None if batch is None else smaller_batch(batch, nodes * nproc)
        warning = "" if batch is None or smaller is None else other_batch(smaller, batch)
        own = [warning] if warning else []
        predicted = index < PREDICTED - 1 or index == len(chosen) - 1
        parts = _shares(shares, nodes, nproc)
        size = SmallerSize(
            nodes=nodes,
            nproc=nproc,
            batch=smaller,
            shard=shard,
            threads=threads[nproc],
            warnings=(*standing, *own),
            prediction=_predicted(predict, _at(config, smaller), parts) if predicted else None,
        )
        sizes.append(size)
        said += own
    return tuple(sizes), (*_left_out(counts, possible, chosen), *_shortened(said))


def may_change(distributed: Distributed) -> bool:
    """Return whether the run may continue without a node or rank it started with."""
    return isinstance(distributed.nproc, str) or isinstance(distributed.nodes, str) or distributed.spare > 0


def check_alike(shares: Sequence[NodeShare]) -> None:
    """Raise PlanError unless all nodes, including spares, have the same number of ranks."""
    full = shares[0].nproc
    odd = next((share for share in shares if share.nproc != full), None)
    if odd is not None:
        wrong = (
            "with a range or spare nodes all must have as many ranks each: "
            f"{shares[0].node.name} has {full}, {odd.node.name} has {odd.nproc}"
        )
        right = f"{min(share.nproc for share in shares)}, or identical machines"
        raise PlanError([problem("distributed.nproc", wrong, right)])


def beside_the_gang(
    config: RunConfig, sizes: Sequence[SmallerSize], spares: Sequence[NodeShare] = ()
) -> list[str]:
    """Return a note that a script's ranks may keep running after the others have continued without them.

    A recipe's ranks notice in that case that their checkpoints now belong to the others, and exit.
    """
    if config.launch.unattended != "continue" or config.run.recipe is not None:
        return []
    if not (spares or (isinstance(config.distributed.nodes, str) and sizes)):
        return []
    lets = "spare nodes" if spares else "a range of nodes"
    said = (
        f'launch.unattended = "continue" and {lets}: ranks of a node that is cut off continue in parallel '
        "to the others, which run without them; paths that the script writes on all nodes must tolerate both"
    )
    return [said]


def _predicted(predict: Predict, config: RunConfig, shares: Sequence[NodeShare]) -> Prediction | None:
    """Call `predict`; problems name the size they belong to."""
    try:
        return predict(config, shares)
    except PlanError as error:
        ranks = sum(share.nproc for share in shares)
        at = f"with the {ranks:,} ranks that it may shrink to"
        raise PlanError([replace(found, wrong=f"{at}, {found.wrong}") for found in error.problems]) from error


def _counts(config: RunConfig, shares: Sequence[NodeShare]) -> list[tuple[int, int]]:
    """Return (nodes, ranks per node) of every size below the full one."""
    distributed = config.distributed
    if not isinstance(distributed.nproc, str) and not isinstance(distributed.nodes, str):
        return []
    full = shares[0].nproc
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


def _shard(config: RunConfig, nodes: int, nproc: int) -> int | None:
    """Return the ranks per group of hsdp, 1 under another strategy; None if the ranks do not divide into
    groups.
    """
    if config.distributed.strategy != "hsdp" or config.run.recipe is None:
        return 1
    shard = config.distributed.hsdp.shard or nproc
    return None if nodes * nproc % shard else shard


def _threads(
    config: RunConfig, shares: Sequence[NodeShare], nproc: int, environ: Mapping[str, str]
) -> dict[str, int]:
    """Return OMP_NUM_THREADS by node if fewer ranks leave more cores to each."""
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
    """Return the config with the accumulation of another size."""
    if batch is None:
        return config
    training = config.training.model_copy(update={"accumulation": batch.accumulation})
    return config.model_copy(update={"training": training})


def _left_out(
    counts: Sequence[tuple[int, int]],
    possible: Sequence[tuple[tuple[int, int], int]],
    chosen: Sequence[tuple[tuple[int, int], int]],
) -> list[str]:
    """Return the sizes of the range with which the run cannot continue, and why, one sentence each."""
    even = {size for size, _ in possible}
    odd = [f"{nodes * nproc:,}" for nodes, nproc in counts if (nodes, nproc) not in even]
    found = []
    if odd:
        more = f" and {len(odd) - SAID:,} more" if len(odd) > SAID else ""
        sizes = f"sizes of {', '.join(odd[:SAID])}{more} ranks"
        found.append(f"{sizes} are left out: distributed.hsdp.shard does not divide them")
    if len(chosen) < len(possible):
        found.append(
            f"of {len(possible):,} smaller sizes the {MOST - 1} largest and the smallest are planned for"
        )
    return found


def _shortened(said: Sequence[str]) -> list[str]:
    more = len(said) - SAID
    return [*said[:SAID], f"and so on at {more} more sizes"] if more > 0 else list(said)


def begun_without(plan: LaunchPlan, absent: Sequence[AbsentNode], missing: Sequence[str]) -> LaunchPlan:
    """Return `plan` without the absent nodes.

    Args:
        plan: plan of the requested size.
        absent: nodes that do not answer.
        missing: those of them that have ranks in `plan`.

    Raises:
        PlanError: it has no size for so few nodes.
    """
    said = tuple(f"node {node.name} is left out: {node.why}" for node in absent)
    roster = Elastic.of_plan(plan).without([Place(name, None) for name in missing])
    if roster is None:
        wrong = f"every size of the range needs {', '.join(missing)}, which did not answer"
        raise PlanError(
            [problem("distributed.nodes", wrong, "a range with smaller sizes, or nodes that answer")]
        )
    begun = smaller_plan(plan, roster) if missing else plan
    own = tuple(text for text in begun.warnings if text not in plan.warnings)
    nodes, nproc = len(begun.nodes), begun.nodes[0].nproc
    smaller = [
        size
        for size in plan.smaller
        if size.nodes <= nodes and size.nproc <= nproc and size.world_size < begun.world_size
    ]
    return dataclasses.replace(
        begun,
        warnings=(*plan.warnings, *said, *own),
        smaller=tuple(smaller) if missing else plan.smaller,
        absent=tuple(absent),
    )
