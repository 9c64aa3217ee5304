"""torchrun, up in two thirds of its time: `.../distributed/torchrun.py` for `-m torch.distributed.run`.

The same function with the same arguments. What takes time is the import of torch, of which who starts ranks
and computes nothing needs a part: it goes undisturbed, without numpy, which torch takes along where it is,
and without kernels for tensors that have no data. By its path, since with `-m` a `torchdeck.py` in the
working directory would come before ours.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

if __name__ == "__main__":  # in place of this file's own folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from torchdeck.distributed.imports_that_stay import imports_that_stay

NUMPY = "numpy"
WHOLE = "TORCHDECK_WHOLE_TORCH"
"""Set: torch is imported as any program does."""
META_KERNELS = "torch._meta_registrations"
"""Registers, at its import, kernels of the device `meta`, as a tracer needs; none is used by its name."""


class _NoNumpy:
    """Finds, before all others, that there is none."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == NUMPY:
            raise ModuleNotFoundError(f"No module named {NUMPY!r}", name=NUMPY)


@contextmanager
def only_what_starts_ranks() -> Iterator[None]:
    """torch is imported meanwhile as where numpy is not installed, and without its meta kernels.

    Whoever imports either afterwards gets it.
    """
    hidden, nothing = _NoNumpy(), ModuleType(META_KERNELS)
    sys.meta_path.insert(0, hidden)
    sys.modules[META_KERNELS] = nothing
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
            yield
    finally:
        sys.meta_path.remove(hidden)
        if sys.modules.get(META_KERNELS) is nothing:
            del sys.modules[META_KERNELS]


def main() -> None:
    """Be torchrun, with this process's arguments."""
    if os.environ.pop(WHOLE, ""):
        from torch.distributed.run import main as torchrun
    else:
        try:
            with imports_that_stay(), only_what_starts_ranks():
                from torch.distributed.run import main as torchrun
        except Exception:  # noqa: BLE001 - a torch that needs more than others, or is broken, and says so then
            _begin_again()
    if "static" in sys.argv:
        _close_stores()
    torchrun()


def _close_stores() -> None:
    from torchdeck.agent.store_order import read_order
    from torchdeck.distributed.store.static_rendezvous import close_stores

    close_stores(read_order())


def _begin_again() -> NoReturn:
    """With all of torch."""
    sys.stderr.flush()
    argv = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
    os.execve(sys.executable, argv, {**os.environ, WHOLE: "1"})  # noqa: S606 - the same arguments


if __name__ == "__main__":
    main()
