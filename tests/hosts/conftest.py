"""Runs across hosts: real sshd, real torchrun over gloo."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.hosts.hosts_run import HostsRun, nothing_left_here


@pytest.fixture
def across(hosts: Callable[..., TestHosts], torchdeck_home: Path) -> Iterator[Callable[..., HostsRun]]:
    """`across(n, entries, **options)`: the command here, n hosts in its node inventory; all ended
    afterwards.
    """
    pytest.importorskip("torch", reason="torchrun comes with torch")
    with ExitStack() as stack:

        def make(count: int, entries: object = None, **options: object) -> HostsRun:
            made = hosts(count, **options)
            stack.enter_context(nothing_left_here(torchdeck_home))
            return HostsRun(made, torchdeck_home, entries)  # type: ignore[arg-type]

        yield make
