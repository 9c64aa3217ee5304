"""torchrun's command line, depending on the version of torch on the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.values.numbers import count_range
from torchdeck.contract.inventory import InterpreterFacts, Version
from torchdeck.contract.plan.elastic import WITHIN_ONE_MACHINE
from torchdeck.contract.plan.environment import PlannedEnvironment
from torchdeck.contract.plan.launch_plan import NodePlan
from torchdeck.contract.plan.slots import escape, slot
from torchdeck.plan.placement import NodeShare

_SIGNALS_FLAG = (2, 10)
_SHUTDOWN_FLAG = (2, 12)
LOOPBACK = "127.0.0.1"
C10D_ENVIRONMENT = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Disables torchrun's own store for ranks, in which a start after a failure reads stale addresses."""
RANK_ORDER = (
    'rendezvous.backend = "c10d": rank order not guaranteed; the placement is the expected one, and torchrun '
    "numbers the nodes when they meet"
)
DEFAULT_PORT = 29500
"""torchrun's default port, as for a manual start."""
TORCHRUN = f"{slot('shipped')}/torchdeck/distributed/torchrun.py"
"""Path of the torchrun that runs use."""
_BY_ITS_OWN_NAME = ("-m", "torch.distributed.run")


@dataclass(frozen=True)
class Meeting:
    """Rendezvous of torchrun's processes."""

    backend: str = "static"
    """`static` or `c10d`."""
    port: int | None = None
    """Port set by the config, or None to choose a free one at launch."""
    least_nodes: int | None = None
    """Under c10d: minimum number of nodes with which torchrun may begin; None: all."""


def torchrun_argv(
    share: NodeShare,
    shares: Sequence[NodeShare],
    interpreter: InterpreterFacts,
    meeting: Meeting,
    shutdown_seconds: float,
) -> tuple[str, ...]:
    """Return torchrun's argv for one node, up to and including `--no-python`, with slots for values known at
    launch.

    Default: static rendezvous, because ranks are then known beforehand. Neither backend restarts ranks. With
    static, torchrun would restart one node's ranks alone. With c10d, it would restart those of all nodes at
    an unplanned world size. The gang is restarted as a whole, by a plan of its own.

    Args:
        share: share of the node.
        shares: all shares, in order of node rank; ranks meet at the first one's address.
        interpreter: Python interpreter of the node; its torch determines the available flags.
        meeting: rendezvous of the processes.
        shutdown_seconds: seconds that torchrun gives ranks to exit after it signalled them.
    """
    version = interpreter.torch_version or (0, 0)
    return (
        _python(interpreter),
        TORCHRUN,
        *("--nnodes", _nnodes(len(shares), meeting)),
        *("--nproc-per-node", str(share.nproc)),
        *("--node-rank", str(share.node_rank)),
        *("--rdzv-backend", meeting.backend),
        # keys of the store contain it, so that a stray connection from another job matches nothing
        *("--rdzv-id", f"{slot('run_id')}-{slot('attempt')}"),
        *_where(share, shares, meeting),
        *("--max-restarts", "0"),
        # torchrun creates this folder in any case; here its error files stay with the run
        *("--log-dir", f"{slot('run_dir')}/attempts/{slot('attempt')}/torchrun"),
        *_flags_of(version, shutdown_seconds),
        "--no-python",
    )


def _python(interpreter: InterpreterFacts) -> str:
    if interpreter.environment is not None:
        return f"{slot('environment')}/bin/python"
    return escape(interpreter.executable)


def by_its_own_name(argv: Sequence[str]) -> tuple[str, ...]:
    """Return `argv` of a torchrun for a script that need not find Torchdeck next to torch."""
    return tuple(word for part in argv for word in (_BY_ITS_OWN_NAME if part == TORCHRUN else (part,)))


def _nnodes(count: int, meeting: Meeting) -> str:
    least = meeting.least_nodes
    return str(count) if meeting.backend == "static" or least in (None, count) else f"{least}:{count}"


def _where(share: NodeShare, shares: Sequence[NodeShare], meeting: Meeting) -> tuple[str, ...]:
    alone = len(shares) == 1
    address = escape(LOOPBACK if alone else shares[0].node.address)
    port = slot("port") if meeting.port is None else str(meeting.port)
    if meeting.backend == "static":
        return "--master-addr", address, "--master-port", port
    # torchrun determines by hostname whether it is the host, and may conclude that no node is (pytorch#79388)
    host = int(share.node_rank == shares[0].node_rank)
    return (
        *("--rdzv-endpoint", f"{address}:{port}"),
        *("--rdzv-conf", f"is_host={host}"),
        *("--local-addr", escape(LOOPBACK if alone else share.node.address)),
    )


def _flags_of(version: Version, shutdown_seconds: float) -> tuple[str, ...]:
    flags: tuple[str, ...] = ()
    if version >= _SIGNALS_FLAG:
        # without SIGHUP: torchrun must outlive the terminal and the connection it was started from
        flags += ("--signals-to-handle", "SIGTERM,SIGINT,SIGQUIT")
    if version >= _SHUTDOWN_FLAG:
        flags += ("--shutdown-timeout", str(max(1, round(shutdown_seconds))))
    return flags


# Environment variables with which a node's ranks are started.

UNSET: tuple[str, ...] = ("PET_*", "TORCH_ELASTIC_WORKER_IDENTICAL")
"""Variables removed from the inherited ones: defaults of torchrun's flags, and one that duplicates ranks on
uneven nodes.
"""


RANK_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_*"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*"),
)
"""torchrun's variables, removed for a process that is no rank of it."""
INTERFACE_VARIABLES = tuple(WITHIN_ONE_MACHINE)


def rank_environment(
    share: NodeShare,
    own: Mapping[str, str],
    environ: Mapping[str, str],
    recipe: str | None,
    *,
    alone: bool = True,
    inside: bool = False,
) -> dict[str, str]:
    """Return the variables of one node's ranks; values may contain slots.

    Args:
        share: share of the node.
        own: the config's [run.env].
        environ: environment of the launching shell; its PYTHONPATH is appended to ours, its OMP_NUM_THREADS
            is kept.
        recipe: settings of a recipe run as JSON, with slots in it and the user's texts escaped.
        alone: there is no other node.
        inside: add callbacks to trainers in the ranks.
    """
    if share.node.described or share.node.remote:
        environ = {}  # this shell's paths and threads do not apply there
    users_path = own.get("PYTHONPATH", environ.get("PYTHONPATH", ""))
    # torch may only be importable through what an activation script or a module system sets there
    nodes_path = slot("node_path") if share.node.remote else ""
    ours = slot("shipped") + (slot("inside") if inside else "")
    env = {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(max(1, share.node.cpu_count // share.nproc)),
        "PYTHONUNBUFFERED": "1",
        **(WITHIN_ONE_MACHINE if alone else _among_nodes(share)),
        **{name: escape(value) for name, value in own.items()},
        "CUDA_VISIBLE_DEVICES": escape(",".join(device.key for device in share.devices)),
        "PYTHONPATH": ours + (f":{escape(users_path)}" if users_path else "") + nodes_path,
        "TORCHDECK_RUN_ID": slot("run_id"),
        "TORCHDECK_RUN_DIR": slot("run_dir"),
        "TORCHDECK_ATTEMPT": slot("attempt"),
        "TORCHDECK_RESUME": slot("resume"),
    }
    if not alone:
        env["TORCHDECK_NODE"] = escape(share.node.name)
    if any(not device.uuid for device in share.devices):
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # indices are nvidia-smi's; CUDA puts the fastest first
    if recipe is not None:
        env["TORCHDECK_RECIPE"] = recipe
    return env


def _among_nodes(share: NodeShare) -> dict[str, str]:
    """Return the variables by which a node's ranks find the others; one value for all nodes would break mixed
    clusters.
    """
    interface = share.node.interface
    return {name: escape(interface) for name in INTERFACE_VARIABLES} if interface else {}


# Commands for each node of a run: torchrun's argv, and the ranks' command, environment and folder.


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
            torchrun=()
            if config.run.launcher == "python"
            else _torchrun(config, share, shares, interpreters[share.node.name]),
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
            environment=interpreters[share.node.name].environment,
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
    environment: PlannedEnvironment | None,
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
        unset=UNSET if torchrun else (*UNSET, *RANK_VARIABLES),
        secrets=tuple(config.run.secrets),
        environment=environment,
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
    python = (_python(interpreter), "-u")
    if run.recipe is not None:
        return (*python, "-m", "torchdeck.distributed.entry")
    arguments = tuple(escape(argument) for argument in run.args)
    if run.module is not None:
        return (*python, "-m", escape(run.module), *arguments)
    return (*python, escape(run.script or ""), *arguments)
