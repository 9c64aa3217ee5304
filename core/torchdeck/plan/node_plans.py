"""Commands for each node of a run: torchrun's argv, and the ranks' command, environment and folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.values.ranges import count_range
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.plan.slots import escape, slot
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.torchrun import C10D_ENVIRONMENT, UNSET, Meeting, rank_environment, torchrun_argv


def node_plans(
    config: RunConfig,
    shares: Sequence[NodeShare],
    interpreters: Mapping[str, InterpreterFacts],
    environ: Mapping[str, str],
    settings: str | None,
    spares: Sequence[NodeShare] = (),
) -> tuple[NodePlan, ...]:
    """Return the plan of each node, with empty slots, then those of the spares, to which `smaller_plan`
    assigns a place.

    Args:
        config: config of the run.
        shares: share of each node that the run uses.
        interpreters: Python interpreter of each node, by the node's name.
        environ: variables of the launching shell.
        settings: settings passed to a recipe's ranks, as JSON; None for a script of the user's own.
        spares: share of each spare node that the run uses.
    """
    rendezvous = C10D_ENVIRONMENT if config.distributed.rendezvous.backend == "c10d" else {}
    return tuple(
        _node_plan(
            config,
            share,
            torchrun=_torchrun(config, share, shares, interpreters[share.node.name]),
            command=_command(config, interpreters[share.node.name]),
            env={
                **rank_environment(
                    share,
                    config.run.env,
                    environ,
                    settings,
                    alone=len(shares) == 1,
                    inside=adds_callbacks(config),
                ),
                **rendezvous,
            },
        )
        for share in (*shares, *spares)
    )


def adds_callbacks(config: RunConfig) -> bool:
    """Return whether ranks get callbacks for trainers of other projects; recipes report by themselves."""
    return config.telemetry.inside and config.run.recipe is None


def _node_plan(
    config: RunConfig,
    share: NodeShare,
    *,
    torchrun: tuple[str, ...],
    command: tuple[str, ...],
    env: Mapping[str, str],
) -> NodePlan:
    return NodePlan(
        name=share.node.name,
        address=share.node.address,
        node_rank=share.node_rank,
        nproc=share.nproc,
        devices=tuple(device.key for device in share.devices),
        working_dir=_working_dir(config, share),
        torchrun=torchrun,
        rank_holder=("/bin/sh", f"{slot('shipped')}/torchdeck/agent/processes/rank_holder.sh"),
        command=command,
        env=env,
        unset=UNSET,
        secrets=tuple(config.run.secrets),
    )


def _working_dir(config: RunConfig, share: NodeShare) -> str:
    if not share.node.remote:
        return escape(config.run.working_dir or ".")
    if share.node.working_dir:
        return escape(share.node.working_dir)
    if config.run.recipe in BUILTIN_RECIPES:
        return slot("run_dir")  # it holds none of the user's files
    return slot("code") if config.run.sync == "auto" else escape(config.run.working_dir or ".")


def _torchrun(
    config: RunConfig, share: NodeShare, shares: Sequence[NodeShare], interpreter: InterpreterFacts
) -> tuple[str, ...]:
    rendezvous, nodes, launch = config.distributed.rendezvous, config.distributed.nodes, config.launch
    # a recipe's batch arithmetic is for one world size: it must not start with fewer nodes than planned
    own = config.run.recipe is None and isinstance(nodes, str)
    meeting = Meeting(
        rendezvous.backend,
        None if rendezvous.port == "auto" else rendezvous.port,
        count_range(nodes).least if own and isinstance(nodes, str) else None,
    )
    # a recipe is stopped through a file; a script only gets torchrun's signal, so it has the longer grace
    # period
    grace = launch.stop_grace if config.run.recipe is None else launch.kill_grace
    return torchrun_argv(share, shares, interpreter, meeting, grace)


def _command(config: RunConfig, interpreter: InterpreterFacts) -> tuple[str, ...]:
    run = config.run
    python = (escape(interpreter.executable), "-u")
    if run.recipe is not None:
        return (*python, "-m", "torchdeck.distributed.entry")
    arguments = tuple(escape(argument) for argument in run.args)
    if run.module is not None:
        return (*python, "-m", escape(run.module), *arguments)
    return (*python, escape(run.script or ""), *arguments)
