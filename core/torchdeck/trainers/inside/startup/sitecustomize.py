"""Python imports this module at the start of every process of a script; only a rank gets callbacks.

Then the `sitecustomize` that Python would have found without this folder is imported in its place.
"""

import os
import sys


def _is_rank() -> bool:
    """Return whether the rank shim started this very process; workers and subprocesses are no ranks."""
    run, attempt, rank = map(os.environ.get, ("TORCHDECK_RUN_DIR", "TORCHDECK_ATTEMPT", "RANK"))
    if not (run and attempt and rank):
        return False
    try:
        # without pathlib, which costs each of the script's processes some milliseconds
        with open(f"{run}/attempts/{attempt}/ranks/{rank}/holder.pid", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read()) == os.getppid()
    except (OSError, ValueError):
        return False


def _add_callbacks() -> None:
    try:
        from torchdeck.trainers.inside.import_hook import install

        install()
    except Exception:  # noqa: BLE001 - the program runs without them
        return


def _import_next() -> None:
    """Import the next sitecustomize; what it raises is raised, and Python handles it as it would have."""
    place = next((at for at, entry in enumerate(sys.path) if entry and _is_ours(entry)), None)
    if place is None:
        return
    removed = sys.path.pop(place)
    ours = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = ours
    finally:
        sys.path.insert(min(place, len(sys.path)), removed)


def _is_ours(entry: str) -> bool:
    return os.path.abspath(entry) == os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


if _is_rank():
    _add_callbacks()
_import_next()
