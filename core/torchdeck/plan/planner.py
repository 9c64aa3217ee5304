"""From a config and what the machines have to the plan of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchdeck.config.problems import Problem
from torchdeck.config.schema import RunConfig
from torchdeck.nodes.inventory import InterpreterFacts, Inventory
from torchdeck.plan.batch import plan_batch
from torchdeck.plan.launch_plan import (
    Batch,
    CheckpointPolicy,
    CodeTree,
    LaunchPlan,
    NodePlan,
    Policy,
    StdoutPolicy,
)
from torchdeck.plan.placement import NodeShare, place, rank_placements
from torchdeck.plan.rank_environment import UNSET, environment_problems, rank_environment
from torchdeck.plan.recipe_settings import recipe_settings
from torchdeck.plan.slots import SLOTS, escape, slot, split
from torchdeck.plan.torchrun import torchrun_argv


class PlanError(Exception):
    """No plan can be made of a config on these machines; `.problems` says all that is in the way."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{problem.path}: {problem.wrong}" for problem in problems))
        self.problems: tuple[Problem, ...] = tuple(problems)


def make_plan(
    config: RunConfig,
    inventory: Inventory,
    code: CodeTree,
    *,
    interpreters: Mapping[str, InterpreterFacts],
    default_working_dir: str,
    environ: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
) -> LaunchPlan:
    """Decide a run. `torchdeck.launch.prepare` gathers the facts and calls this.

    Args:
        config: what is asked for, its paths absolute.
        inventory: the machines it may name.
        code: the user's own code that will be executed.
        interpreters: the Python of each node, by the node's name.
        default_working_dir: where ranks start if the config does not say; the folder of run.toml.
        environ: variables of the launching shell; PYTHONPATH, OMP_NUM_THREADS and CUDA_VISIBLE_DEVICES count.
        warnings: what was noticed while facts and code were gathered.

    Raises:
        PlanError: with every problem there is.
    """
    environ = {} if environ is None else environ
    shares, problems = place(config.distributed, inventory, environ)
    problems += environment_problems(config.run.env)
    problems += _argument_problems(config.run.args)
    on_gpus = any(share.devices for share in shares)
    if config.distributed.backend == "nccl" and not on_gpus and not problems:
        problems.append(
            Problem(
                path="distributed.backend",
                wrong='"nccl" joins GPUs, and the ranks run on the CPU',
                right='"gloo", or "auto", which follows the devices',
            )
        )
    if problems:
        raise PlanError(problems)
    backend = _backend(config.distributed.backend, on_gpus=on_gpus)
    kind, target = _what(config)
    world_size = sum(share.nproc for share in shares)
    batch = plan_batch(config.training, world_size) if kind == "recipe" else None
    checkpoint = _checkpoint(config)
    settings = None if batch is None else recipe_settings(config, batch, backend, checkpoint.directory)
    working_dir = config.run.working_dir or default_working_dir
    nodes = tuple(
        NodePlan(
            name=share.node.name,
            address=share.node.address,
            node_rank=share.node_rank,
            nproc=share.nproc,
            devices=tuple(device.key for device in share.devices),
            working_dir=escape(working_dir),
            torchrun=_torchrun(config, share, shares, interpreters[share.node.name], kind),
            rank_holder=("/bin/sh", f"{slot('shipped')}/torchdeck/agent/rank_holder.sh"),
            command=_command(config, interpreters[share.node.name]),
            env=rank_environment(share, config.run.env, environ, settings),
            unset=UNSET,
        )
        for share in shares
    )
    return LaunchPlan(
        name=config.name,
        kind=kind,
        target=target,
        strategy=config.distributed.strategy,
        backend=backend,
        world_size=world_size,
        ranks=rank_placements(shares),
        nodes=nodes,
        batch=batch,
        checkpoint=checkpoint,
        stdout=StdoutPolicy(
            enabled=config.telemetry.stdout and kind != "recipe", patterns=tuple(config.telemetry.patterns)
        ),
        policy=_policy(config, cooperative_stop=kind == "recipe"),
        slots={name: SLOTS[name] for name in SLOTS if name in _slots_in(nodes, checkpoint)},
        code=code,
        warnings=(*warnings, *_warnings(shares)),
    )


def describe_placement(plan: LaunchPlan) -> str:
    """One line for people: `2 ranks on localhost (cpu), ddp over gloo`."""
    parts = []
    for node in plan.nodes:
        devices = [rank.device for rank in plan.ranks if rank.node_rank == node.node_rank]
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
        [Problem(path="run", wrong="nothing is said about what to run", right="one of recipe, script, module")]
    )


def _argument_problems(arguments: Sequence[str]) -> list[Problem]:
    return [
        Problem(path=f"run.args[{position}]", wrong="no argument may hold a NUL character", right="other text")
        for position, argument in enumerate(arguments)
        if "\0" in argument
    ]


def _backend(asked: str, *, on_gpus: bool) -> str:
    if asked != "auto":
        return asked
    return "nccl" if on_gpus else "gloo"


def _torchrun(
    config: RunConfig,
    share: NodeShare,
    shares: Sequence[NodeShare],
    interpreter: InterpreterFacts,
    kind: str,
) -> tuple[str, ...]:
    port = config.distributed.rendezvous.port
    # a recipe is told to stop by a file; another script's only notice is torchrun's signal, so it has the longer grace
    grace = config.launch.kill_grace if kind == "recipe" else config.launch.stop_grace
    return torchrun_argv(share, shares, interpreter, None if port == "auto" else port, grace)


def _command(config: RunConfig, interpreter: InterpreterFacts) -> tuple[str, ...]:
    run = config.run
    python = (escape(interpreter.executable), "-u")
    if run.recipe is not None:
        return (*python, "-m", "torchdeck.distributed.entry")
    arguments = tuple(escape(argument) for argument in run.args)
    if run.module is not None:
        return (*python, "-m", escape(run.module), *arguments)
    return (*python, escape(run.script or ""), *arguments)


def _checkpoint(config: RunConfig) -> CheckpointPolicy:
    directory = config.checkpoint.directory
    return CheckpointPolicy(
        directory=f"{slot('run_dir')}/checkpoints" if directory is None else escape(directory),
        resume=config.checkpoint.resume,
        every_steps=config.checkpoint.every,
        keep_last=config.checkpoint.keep_last,
    )


def _policy(config: RunConfig, *, cooperative_stop: bool) -> Policy:
    launch, limits = config.launch, config.limits
    return Policy(
        max_restarts=launch.max_restarts,
        restart_delay=launch.restart_delay,
        on_hang=launch.on_hang,
        hang_after=launch.hang_after,
        cooperative_stop=cooperative_stop,
        stop_grace=launch.stop_grace,
        kill_grace=launch.kill_grace,
        queue=launch.queue,
        unattended=launch.unattended,
        node_grace=launch.node_grace,
        min_free_bytes=limits.min_free_disk,
        max_seconds=None if limits.max_hours is None else limits.max_hours * 3600,
        system_interval=config.telemetry.system_interval,
    )


def _slots_in(nodes: Sequence[NodePlan], checkpoint: CheckpointPolicy) -> set[str]:
    def texts() -> Iterator[str]:
        yield checkpoint.directory
        for node in nodes:
            yield from (node.working_dir, *node.argv, *node.env.values())

    return {name for text in texts() for _, name in split(text) if name}


def _warnings(shares: Sequence[NodeShare]) -> list[str]:
    return [
        f"{share.nproc} ranks share {share.node.cpu_count} cores on {share.node.name}: each gets one thread"
        for share in shares
        if share.nproc > share.node.cpu_count
    ]
