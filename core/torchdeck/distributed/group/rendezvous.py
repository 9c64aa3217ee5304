"""Rendezvous of a job's ranks, and the report of ranks that never arrive."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import time
from datetime import timedelta

import torch
import torch.distributed as dist

# torch.distributed exposes them under its own name, which its type stubs lack
from torch._C._distributed_c10d import HashStore, PrefixStore, Store, TCPStore

from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.distributed.store.listening_socket import listening_on
from torchdeck.environment import STORE_VARIABLE, DistributedConfig

_PREFIX = "torchdeck/arrival"
_NAMED = 8
"""Maximum number of absent ranks to name."""
_DIGITS = 20
"""Maximum characters of another rank's number to show."""
_LINGER = 2.0
"""Seconds that the rank serving the store waits for the others to read which ranks are absent."""
_LATE = 10.0
"""Seconds that it waits for ranks that have not arrived, where ranks differ."""
_LONGEST_PAUSE = 0.25
"""Seconds between two looks of a rank that waits."""


class RendezvousError(RecipeError):
    """Not all ranks arrived in time; the message says which are missing, where and what to do."""

    page = "trouble/hangs#connections"


def join(config: DistributedConfig, *, backend: str, device: torch.device | None = None) -> None:
    """Join the default process group; return when all ranks are there.

    A single process forms a group of one, without a port.

    Args:
        config: this rank, the rendezvous, and the timeout.
        backend: `gloo` or `nccl`.
        device: the GPU to bind the group to: NCCL then connects immediately and does not guess.

    Raises:
        RendezvousError: a rank is absent after `config.timeout`, or the rendezvous address is unreachable.
    """
    timeout = timedelta(seconds=config.timeout)
    store = _open_store(config, timeout) if config.is_distributed else HashStore()
    if config.is_distributed:
        _await_all(store, config, timeout)
    dist.init_process_group(
        backend,
        store=store,
        rank=config.rank,
        world_size=config.world_size,
        timeout=timeout,
        device_id=device,
    )


def _open_store(config: DistributedConfig, timeout: timedelta) -> Store:
    """Open the store at the rendezvous: torchrun's own if it offers one, otherwise served by rank 0."""
    offered = _is_offered(config)
    serves = config.rank == 0 and not offered
    address, port = (_behind_the_front() if offered else None) or (config.master_addr, config.master_port)
    try:
        # closed late: a front that forwards to the store looks whose the connection is
        with contextlib.nullcontext() if serves else _await_listener(address, port, config.timeout):
            store: Store = _connect(address, port, config.world_size, timeout, serves)
    except (RuntimeError, OSError) as error:
        raise RendezvousError(_unreachable(config, str(error), offered=offered)) from None
    if offered:
        # the store outlives torchrun's own restart, and data written by an earlier gang must not be read
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"/worker/attempt_{attempt}", store)
    # ranks that left may join again: data they wrote before must not be read
    return PrefixStore(f"join_{store.add(f'joins/{config.rank}', 1)}", store)


def _is_offered(config: DistributedConfig) -> bool:
    """Return whether torchrun serves a store at the rendezvous, which may be configured elsewhere."""
    offered, address, port = map(
        os.environ.get, ("TORCHELASTIC_USE_AGENT_STORE", "MASTER_ADDR", "MASTER_PORT")
    )
    return (offered, address, port) == ("True", config.master_addr, str(config.master_port))


def _behind_the_front() -> tuple[str, int] | None:
    """Return this node's torchrun address that forwards to the store; None if the store is at the rendezvous
    itself.
    """
    address, _, port = os.environ.get(STORE_VARIABLE, "").rpartition(":")
    return (address, int(port)) if address and port.isdecimal() else None


@functools.cache
def _connect(address: str, port: int, world_size: int, timeout: timedelta, serves: bool) -> TCPStore:  # noqa: FBT001
    """Return the store of a rendezvous, which the process keeps open.

    If it were closed with a group, a rank that joins again at once would find the one about to disappear.
    """
    return TCPStore(
        address,
        port,
        world_size,
        is_master=serves,
        timeout=timeout,
        wait_for_workers=False,
        multi_tenant=True,
        # torch's own listens on every address
        master_listen_fd=_listener(address, port) if serves else None,
    )


@functools.cache
def _listener(address: str, port: int) -> int:
    """Return a descriptor of a port that listens; a second store there, with another timeout, uses the first
    one's server (`multi_tenant`).
    """
    return listening_on(address, port).detach()


def _await_listener(address: str, port: int, seconds: float) -> socket.socket:
    """Return a connection once something listens there; torch's own wait prints its C++ stack for each
    attempt.

    Raises:
        OSError: nothing does within `seconds`.
    """
    began = time.monotonic()
    while True:
        waited = time.monotonic() - began
        try:
            return socket.create_connection((address, port), timeout=max(0.1, seconds - waited))
        except OSError:
            if waited > seconds:
                raise
            time.sleep(_pause(waited))


def _wait(store: Store, key: str, seconds: float) -> bool:
    """Return whether `key` appears within `seconds`; the store's own wait warns on stderr if it does not."""
    began = time.monotonic()
    while not store.check([key]):
        waited = time.monotonic() - began
        if waited > seconds:
            return False
        time.sleep(_pause(waited))
    return True


def _pause(waited: float) -> float:
    return min(_LONGEST_PAUSE, 1e-3 + waited / 20)


def _unreachable(config: DistributedConfig, error: str, *, offered: bool) -> str:
    where = _meeting_point(config)
    if not _is_known(config.master_addr):
        return (
            f"rank {config.rank} knows no machine named {config.master_addr} (MASTER_ADDR): expected the "
            "name or address of rank 0's node"
        )
    if config.rank == 0 and not offered:
        return (
            f"rank 0 cannot open {where} (MASTER_ADDR:MASTER_PORT) for the others: {_first_line(error)}. "
            "Choose a free port, and an address of this machine"
        )
    return (
        f"rank {config.rank} reached no one at {where} (MASTER_ADDR:MASTER_PORT) within "
        f"{config.timeout:g} s: rank 0 was not started, or the port is closed between the two machines"
    )


def _is_known(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _meeting_point(config: DistributedConfig) -> str:
    host = config.master_addr
    return f"[{host}]:{config.master_port}" if ":" in host else f"{host}:{config.master_port}"


def _await_all(store: Store, config: DistributedConfig, timeout: timedelta) -> None:
    """Wait until every rank has reported that it is there; the first one to time out names the absent
    ranks.
    """
    store = PrefixStore(_PREFIX, store)
    deadline = time.monotonic() + timeout.total_seconds()
    try:
        store.set(str(config.rank), "here")
        store.add("arrived", 1)
        difference = _difference(store, config)
        if difference:
            store.compare_set("verdict", "", json.dumps(difference))
        elif store.add("count", 1) == config.world_size:
            store.compare_set("verdict", "", "[]")
        # a rank that comes after the others agreed has its own reason
        verdict = difference or _verdict(store, config, deadline)
        if verdict:
            _tell(store, config, late=isinstance(verdict, str))
    except RuntimeError as error:
        raise RendezvousError(
            f"rank {config.rank} lost the connection to {_meeting_point(config)} while "
            f"waiting for the other ranks ({_first_line(str(error))}): look at what rank 0 said last"
        ) from None
    if verdict:
        raise RendezvousError(verdict if isinstance(verdict, str) else _absent(verdict, config))


def _difference(store: Store, config: DistributedConfig) -> str:
    """Return how WORLD_SIZE differs from that of the first rank to arrive; empty if it does not."""
    said = store.compare_set("world_size", "", f"{config.rank} {config.world_size}").decode(errors="replace")
    first, _, world_size = said.partition(" ")
    if world_size == str(config.world_size):
        return ""
    return (
        f"rank {first[:_DIGITS]} has WORLD_SIZE {world_size[:_DIGITS]} and rank {config.rank} has "
        f"{config.world_size}: start every rank with the same WORLD_SIZE, the number of all ranks"
    )


def _verdict(store: Store, config: DistributedConfig, deadline: float) -> list[int] | str:
    """Return the absent ranks, or how ranks differ; empty as soon as all are there."""
    if not _wait(store, "verdict", deadline - time.monotonic()):
        _decide(store, config)
    found: list[int] | str = json.loads(store.get("verdict"))
    return found


def _decide(store: Store, config: DistributedConfig) -> None:
    """Ensure that there is a verdict: one of the ranks checks which are absent.

    A thousand ranks that time out together would query the store a million times.
    """
    if store.add("deciding", 1) > 1 and _wait(store, "verdict", _LINGER):
        return  # else the deciding rank is gone
    missing = [rank for rank in range(config.world_size) if not store.check([str(rank)])]
    # the first one decides for all: a rank arriving at this moment must not continue alone
    store.compare_set("verdict", "", json.dumps(missing))


def _tell(store: Store, config: DistributedConfig, *, late: bool) -> None:
    """Wait until every present rank has read the verdict before the one that serves the store exits.

    With `late`, ranks that are still to come read it, too: without the store they would reach no one.
    """
    readers = config.world_size if late else store.add("arrived", 0)
    if store.add("told", 1) >= readers:
        store.set("all told", "")
    if config.rank == 0:
        _wait(store, "all told", _LATE if late else _LINGER)


def _absent(absent: list[int], config: DistributedConfig) -> str:
    shown = ", ".join(map(str, absent[:_NAMED]))
    more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    who = f"rank {shown}" if len(absent) == 1 else f"ranks {shown}{more}"
    return (
        f"{who} of {config.world_size} did not come to {_meeting_point(config)} within "
        f"{config.timeout:g} s: see what they said last, or whether they were started at all"
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"
