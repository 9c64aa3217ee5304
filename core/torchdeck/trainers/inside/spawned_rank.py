"""Ranks that a program starts itself, such as by `torch.multiprocessing.spawn`, write down their number."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torchdeck.trainers.inside.import_hook import ImportHook

MODULE = "torch.distributed.distributed_c10d"


def install(folder: Path) -> None:
    """Wait until this process joins a process group.

    Args:
        folder: folder for a file with the rank, named by the process id (`AttemptLayout.spawned`).
    """
    sys.meta_path.insert(0, ImportHook({MODULE: lambda module: _add(module, folder)}))


def _add(module: ModuleType, folder: Path) -> None:
    original = module.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        joined = original(*args, **kwargs)
        with contextlib.suppress(Exception):  # the rank has no name then, and trains
            rank = module.get_rank()
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / str(os.getpid())).write_text(f"{rank}\n", encoding="ascii")
        return joined

    module.init_process_group = init_process_group  # type: ignore[attr-defined]  # torch's own has it
