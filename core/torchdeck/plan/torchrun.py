"""torchrun's command line, by the version of torch on the node."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.nodes.inventory import InterpreterFacts, Version
from torchdeck.plan.placement import NodeShare
from torchdeck.plan.slots import escape, slot

_SIGNALS_FLAG = (2, 10)
_SHUTDOWN_FLAG = (2, 12)
DEFAULT_PORT = 29500
"""torchrun's own, where a person starts it by hand."""


def torchrun_argv(
    share: NodeShare,
    shares: Sequence[NodeShare],
    interpreter: InterpreterFacts,
    port: int | None,
    shutdown_seconds: float,
) -> tuple[str, ...]:
    """torchrun for one node, up to and including `--no-python`; slots stand where values come at launch.

    Static rendezvous, because ranks are then known beforehand; no restarts, because under it torchrun would
    restart one node's ranks alone: the gang is started again as a whole.

    Args:
        share: the node's part.
        shares: all parts, in order of node rank; the first one's address is where ranks meet.
        interpreter: the node's Python; its torch decides which flags there are.
        port: fixed by the config, or None to choose a free one at launch.
        shutdown_seconds: how long torchrun lets ranks live after it told them to end.
    """
    version = interpreter.torch_version or (0, 0)
    address = "127.0.0.1" if len(shares) == 1 else shares[0].node.address
    return (
        escape(interpreter.executable),
        *("-m", "torch.distributed.run"),
        *("--nnodes", str(len(shares))),
        *("--nproc-per-node", str(share.nproc)),
        *("--node-rank", str(share.node_rank)),
        *("--rdzv-backend", "static"),
        # keys of the store carry it, so that a stray connection from another job meets nothing
        *("--rdzv-id", f"{slot('run_id')}-{slot('attempt')}"),
        *("--master-addr", escape(address)),
        *("--master-port", slot("port") if port is None else str(port)),
        *("--max-restarts", "0"),
        # torchrun makes this folder in any case; here its error files stay with the run
        *("--log-dir", f"{slot('run_dir')}/attempts/{slot('attempt')}/torchrun"),
        *_flags_of(version, shutdown_seconds),
        "--no-python",
    )


def _flags_of(version: Version, shutdown_seconds: float) -> tuple[str, ...]:
    flags: tuple[str, ...] = ()
    if version >= _SIGNALS_FLAG:
        # without SIGHUP: torchrun must outlive the terminal and the connection it was started from
        flags += ("--signals-to-handle", "SIGTERM,SIGINT,SIGQUIT")
    if version >= _SHUTDOWN_FLAG:
        flags += ("--shutdown-timeout", str(max(1, round(shutdown_seconds))))
    return flags
