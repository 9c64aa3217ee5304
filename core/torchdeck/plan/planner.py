"""Pure function from a config and the machines' facts to the plan of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from torchdeck.config.chosen_nodes import wanted
from torchdeck.config.schema import Checkpoint, RunConfig
from torchdeck.contract.inventory import InterpreterFacts, Inventory
from torchdeck.contract.plan.launch_plan import Batch, CodeTree, LaunchPlan, NodePlan
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.contract.plan.slots import SLOTS, escape, slot, split
from torchdeck.plan.alerts import alert_plan
from torchdeck.plan.batch import plan_batch
from torchdeck.plan.check import PlanError, problem
from torchdeck.plan.code_paths import run_from_copy
from torchdeck.plan.groups import ShardGroups, shard_groups
from torchdeck.plan.known import Known
from torchdeck.plan.node_commands import RANK_ORDER, node_plans
from torchdeck.plan.placement import NodeShare, crowding, lowered, place, rank_placements, weaker
from torchdeck.plan.sizes import beside_the_gang, check_alike, may_change, smaller_sizes
from torchdeck.trainers.resume import ResumeBy, ResumeRule, written

OWN_RANKS = (
    'run.launcher = "python": one process is planned. Ranks that the script starts are shown while it runs.'
)


def make_plan(
    config: RunConfig,
    inventory: Inventory,
    code: CodeTree,
    *,
    interpreters: Mapping[str, InterpreterFacts],
    environ: Mapping[str, str] = MappingProxyType({}),
    known: Known | None = None,
    warnings: Sequence[str] = (),
    resuming: ResumeRule | None = None,
) -> LaunchPlan:
    """Plan a run from facts that `torchdeck.launching.prepare` gathers. Raises PlanError with every problem.

    Args:
        config: config as returned by `load_config` and `config_from_dict`.
        inventory: machines it may name.
        code: the user's own code that will be executed.
        interpreters: Python interpreter of each node, by the node's name.
        environ: the launching shell's PYTHONPATH, OMP_NUM_THREADS and CUDA_VISIBLE_DEVICES.
        known: facts about model and data for the prediction; default: none.
        warnings: warnings from gathering facts and code.
        resuming: how the script or module continues from its own checkpoint; None if unknown.
    """
    shares, spares = _fitting_shares(config, inventory, environ)
    kind, target = _what(config)
    backend = _backend(config.distributed.backend, shares)
    batch = _batch(config, shares, known)
    predict = partial(_prediction, backend=backend, known=known)
    checkpoint = checkpoint_policy(config, resuming)
    groups = _groups(config, shares)
    settings = _settings(config, batch, backend, checkpoint.directory, groups)
    parts = run_from_copy(node_plans(config, shares, interpreters, environ, settings, spares), config, code)
    smaller, said = smaller_sizes(config, shares, batch, environ, predict, _rank_order(config), spares)
    _check_exclusion(config, can_exclude=bool(smaller or spares))
    noticed = (*_noticed(config, shares, groups), *_from_scratch(config, checkpoint), *weaker(shares, spares))
    placed, world_size = rank_placements([*shares, *spares]), sum(share.nproc for share in shares)
    return LaunchPlan(
        name=config.name,
        kind=kind,
        target=target,
        strategy=config.distributed.strategy,
        backend=backend,
        world_size=world_size,
        ranks=placed[:world_size],
        nodes=parts[: len(shares)],
        batch=batch,
        checkpoint=checkpoint,
        stdout=stdout_policy(config),
        metric_names=dict(config.telemetry.names),
        policy=supervision_policy(config),
        slots=_slots_in(parts, checkpoint),
        code=code,
        warnings=(*warnings, *noticed, *said, *beside_the_gang(config, smaller, spares)),
        prediction=predict(config, shares),
        smaller=smaller,
        spares=parts[len(shares) :],
        spare_ranks=placed[world_size:],
        alerts=alert_plan(config),
    )


def _check_exclusion(config: RunConfig, *, can_exclude: bool) -> None:
    """Raise PlanError if a rank or node that hangs is to be excluded, and none can be."""
    if config.launch.on_hang == "exclude" and not can_exclude:
        wrong = "the run has no smaller size and no spare node: no rank or node can be left out"
        raise PlanError([problem("launch.on_hang", wrong, 'a wider range, or on_hang = "restart"')])


def describe_placement(plan: LaunchPlan) -> str:
    """Return one readable line: `2 ranks on localhost (cpu), ddp over gloo`."""
    parts = []
    placed: dict[int, list[str]] = {}
    for rank in plan.ranks:
        placed.setdefault(rank.node_rank, []).append(rank.device)
    for node in plan.nodes:
        devices = placed[node.node_rank]
        where = "cpu" if set(devices) == {"cpu"} else ", ".join(devices)
        parts.append(f"{node.nproc} rank{'s' if node.nproc > 1 else ''} on {node.name} ({where})")
    return f"{'; '.join(parts)}, {plan.strategy} over {plan.backend}"


def _what(config: RunConfig) -> tuple[str, str]:
    run = config.run
    if run.recipe is not None:
        return "recipe", run.recipe
    if run.script is not None:
        return "script", run.script
    if run.module is not None:
        return "module", run.module
    raise PlanError(
        [problem("run", "neither recipe, script nor module is given", "one of recipe, script, module")]
    )


def _fitting_shares(
    config: RunConfig, inventory: Inventory, environ: Mapping[str, str]
) -> tuple[list[NodeShare], list[NodeShare]]:
    """Return the shares of every node and of the spares; raise PlanError if config and machines do not
    fit.
    """
    shares, problems = place(config.distributed, inventory, environ)
    if config.distributed.backend == "nccl" and not any(share.devices for share in shares) and not problems:
        problems.append(
            problem(
                "distributed.backend",
                '"nccl" needs GPUs, but the ranks run on the CPU',
                '"gloo", or "auto", which follows the devices',
            )
        )
    if problems:
        raise PlanError(problems)
    count = wanted(config.distributed, len(shares)).most
    if may_change(config.distributed):
        check_alike(shares)
    shares, spares = shares[:count], shares[count:]
    if config.run.launcher == "python":
        return [_one_process(config, shares, spares)], spares
    return shares, spares


def _one_process(config: RunConfig, shares: Sequence[NodeShare], spares: Sequence[NodeShare]) -> NodeShare:
    """Return the node's share as one process with all its devices; raise PlanError if it cannot be one."""
    problems = []
    if config.run.recipe is not None:
        problems.append(
            problem("run.launcher", '"python" starts a script, but a recipe is chosen', '"torchrun"')
        )
    if len(shares) + len(spares) > 1 or may_change(config.distributed):
        what = '"python" starts one process on one node, and the number of ranks or nodes may differ'
        problems.append(
            problem("run.launcher", what, 'one node and a fixed distributed.nproc, or "torchrun"')
        )
    if problems:
        raise PlanError(problems)
    if len(shares[0].devices) < shares[0].nproc > 1:
        right = "1, as the script starts its own ranks"
        raise PlanError([problem("distributed.nproc", "one process is started, without GPUs", right)])
    return replace(shares[0], nproc=1)


def _batch(config: RunConfig, shares: Sequence[NodeShare], known: Known | None) -> Batch | None:
    """Return the batch arithmetic of a recipe run; None for a script, which does its own."""
    if config.run.recipe is None:
        return None
    world_size = sum(share.nproc for share in shares)
    plan = None if known is None else known.batch_plan
    if plan is None:
        return plan_batch(config.training, world_size)
    samples = sum(len(plan.epoch_columns(epoch).sample_ids) for epoch in range(plan.epochs))
    mean = samples / plan.total_microbatches if plan.total_microbatches else 0.0
    return plan_batch(config.training, world_size, mean_microbatch=mean)


def _prediction(
    config: RunConfig, shares: Sequence[NodeShare], backend: str, known: Known | None
) -> Prediction | None:
    if known is None or not known.anything:
        return None
    from torchdeck.plan.prediction import predict  # imports numpy, which a script does not need

    return predict(config, shares, backend, known)


def _groups(config: RunConfig, shares: Sequence[NodeShare]) -> ShardGroups | None:
    """Return hsdp's groups on the nodes; None under another strategy, or if the strategy is the user's
    own.
    """
    if config.distributed.strategy != "hsdp" or config.run.recipe is None:
        return None
    return shard_groups(shares, config.distributed.hsdp.shard)


def _backend(asked: str, shares: Sequence[NodeShare]) -> str:
    if asked != "auto":
        return asked
    return "nccl" if any(share.devices for share in shares) else "gloo"


def _settings(
    config: RunConfig, batch: Batch | None, backend: str, checkpoints: str, groups: ShardGroups | None
) -> str | None:
    """Return the settings passed to the ranks of a recipe; None for a script."""
    if batch is None:
        return None
    return recipe_settings(config, batch, backend, checkpoints, shard=1 if groups is None else groups.shard)


def _slots_in(nodes: Sequence[NodePlan], checkpoint: CheckpointPolicy) -> dict[str, str]:
    """Return the slots of a plan, each with the component that fills it."""

    def texts() -> Iterator[str]:
        yield checkpoint.directory
        for node in nodes:
            yield from (node.working_dir, *node.argv, *node.env.values())

    # thousands of nodes have the same text except for a few words
    used = {name for text in set(texts()) for _, name in split(text) if name}
    return {name: filler for name, filler in SLOTS.items() if name in used}


def _noticed(config: RunConfig, shares: Sequence[NodeShare], groups: ShardGroups | None) -> tuple[str, ...]:
    """Return notes on the placement of the ranks."""
    limited = lowered(config.distributed, shares)
    if config.run.launcher == "python":
        devices = ", ".join(device.key for device in shares[0].devices)
        limited = [*limited, f"{OWN_RANKS}{f' It gets the GPUs {devices}.' if devices else ''}"]
    return (*limited, *crowding(shares), *(() if groups is None else groups.warnings), *_rank_order(config))


def _rank_order(config: RunConfig) -> list[str]:
    if config.distributed.rendezvous.backend != "c10d":
        return []
    return [RANK_ORDER]


# Policies of a run file for restarts, stops, limits, checkpoints and printed numbers, as agents read them.


def checkpoint_policy(config: RunConfig, resuming: ResumeRule | None = None) -> CheckpointPolicy:
    """Return where checkpoints are stored, and which are made and kept."""
    directory, every = config.checkpoint.directory, config.checkpoint.every
    own = tuple(map(written, config.run.resume_args))
    return CheckpointPolicy(
        directory=f"{slot('run_dir')}/checkpoints" if directory is None else escape(directory),
        resume=config.checkpoint.resume,
        every_steps=every if isinstance(every, int) else None,
        keep_last=config.checkpoint.keep_last,
        resume_args=own or (resuming.arguments if resuming else ()),
        resume_by=ResumeBy.ARGUMENTS.value if own else resuming.by.value if resuming else "",
    )


def _from_scratch(config: RunConfig, checkpoint: CheckpointPolicy) -> list[str]:
    """Warn that restarts would begin from scratch."""
    if config.run.recipe is not None or not config.launch.max_restarts:
        return []
    if checkpoint.resume_by:
        return []
    text = (
        f"it is unknown how {config.run.script or config.run.module} continues from a checkpoint: after a "
        "failure it would begin from scratch. Set run.resume_args, such as "
        '["--resume", "@{checkpoint}"]'
    )
    return [text]


def stdout_policy(config: RunConfig) -> StdoutPolicy:
    """Return which printed numbers are read."""
    # a recipe's numbers are written by the trainer itself
    enabled = config.telemetry.stdout and config.run.recipe is None
    return StdoutPolicy(enabled, tuple(config.telemetry.patterns))


def supervision_policy(config: RunConfig) -> Policy:
    """Return how the gang handles failures, hangs, stops and limits."""
    launch, limits = config.launch, config.limits
    return Policy(
        max_restarts=launch.max_restarts,
        restart_delay=launch.restart_delay,
        on_hang=launch.on_hang,
        hang_after=launch.hang_after,
        cooperative_stop=config.run.recipe is not None,
        stop_grace=launch.stop_grace,
        kill_grace=launch.kill_grace,
        queue=launch.queue,
        min_free_bytes=limits.min_free_disk,
        max_seconds=None if limits.max_hours is None else limits.max_hours * 3600,
        system_interval=config.telemetry.system_interval,
        node_grace=launch.node_grace,
        unattended=launch.unattended,
        lost_after=launch.lost_after,
    )


# Settings for the ranks of a recipe run: the JSON in TORCHDECK_RECIPE.

RECIPE_VERSION = 1
_TELEMETRY = {"every", "stats_every", "profile_steps"}


def recipe_settings(
    config: RunConfig, batch: Batch, backend: str, checkpoints: str, *, shard: int = 1
) -> str:
    """Return the settings of a recipe run as single-line JSON.

    Args:
        config: config of a recipe run.
        batch: its batch arithmetic; the ranks get the scaled learning rate from it.
        backend: `gloo` or `nccl`, resolved.
        checkpoints: their folder, with slots in it and the user's text escaped.
        shard: ranks per group of hsdp, resolved.
    """
    distributed = config.distributed
    value = {
        "version": RECIPE_VERSION,
        "recipe": config.run.recipe,
        "model": config.model,
        "data": config.data,
        "training": {**config.training.model_dump(mode="json"), "scaled_lr": batch.scaled_lr},
        "distributed": {
            "strategy": distributed.strategy,
            "backend": backend,
            "timeout": distributed.timeout,
            "ddp": distributed.ddp.model_dump(mode="json"),
            "fsdp": distributed.fsdp.model_dump(mode="json"),
            "hsdp": {"shard": shard},
            "deepspeed": distributed.deepspeed.model_dump(mode="json"),
        },
        "telemetry": config.telemetry.model_dump(mode="json", include=_TELEMETRY),
        "checkpoint": _checkpoint(config.checkpoint),
    }
    whole = _escaped(value)
    whole["checkpoint"]["directory"] = checkpoints
    return json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def _checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the table without the folder and the checkpoint to resume; `every` is a number or none, `auto` a
    key of its own.
    """
    value = checkpoint.model_dump(mode="json", exclude={"directory", "resume"})
    auto = checkpoint.every == "auto"
    return {**value, "every": None if auto else checkpoint.every, "auto": auto}


def _escaped(value: Any) -> Any:
    """Return `value` with every string in it escaped, so that filling slots does not change it."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {escape(str(key)): _escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    return value
