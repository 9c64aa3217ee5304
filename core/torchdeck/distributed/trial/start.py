"""Replaces itself with torchrun after reporting that torch could be imported."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

MARK = "torchdeck-trial "


def say(stage: str, **more: object) -> None:
    """Print a line for the reader in one write."""
    os.write(1, f"{MARK}{json.dumps({'stage': stage, **more})}\n".encode())


def on_one_address(store: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's TCPStore, bound to its given address; torch's own listens on every address."""
    listening_on = importlib.import_module("listening_socket").listening_on  # next to this file at run time

    def opened(host: str, port: int, nodes: int, is_master: bool, *more: Any, **options: Any) -> Any:  # noqa: FBT001 - as torch calls it
        if is_master:
            options["master_listen_fd"] = listening_on(host, port).detach()
        return store(host, port, nodes, is_master, *more, **options)

    return opened


if __name__ == "__main__":
    from torch.distributed.run import main

    rendezvous: Any = importlib.import_module("torch.distributed.elastic.rendezvous.static_tcp_rendezvous")
    rendezvous.TCPStore = on_one_address(rendezvous.TCPStore)
    say("torchrun")
    main(sys.argv[1:])
