"""torchrun with private stores: `.../distributed/torchrun.py` replaces `-m torch.distributed.run`.

The same function with the same arguments; static rendezvous opens a store that only the run's own processes
can reach. It is started by its path, because `-m` would import a `torchdeck.py` in the working directory
instead of the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # replaces this file's own folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])


def main() -> int:
    """Run torchrun with this process's arguments; return 0, or raise torchrun's own exception."""
    from torch.distributed.run import main as torchrun

    if "static" in sys.argv:
        from torchdeck.agent.store_order import read_order
        from torchdeck.distributed.store.static_rendezvous import close_stores

        close_stores(read_order())
    torchrun()
    return 0


if __name__ == "__main__":
    from torchdeck.distributed.process_end import leave

    leave(main())
