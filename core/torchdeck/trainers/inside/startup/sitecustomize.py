"""Python imports this module at the start of every process of a script.

Only a rank gets a heartbeat and callbacks; a rank that the program starts by itself is named. Then the
`sitecustomize` that Python would have found without this folder is imported in its place.
"""

import os
import sys


def _folder() -> str:
    """Return the folder of this rank's files; empty outside a run.

    A plain process (run.launcher = "python") has no variable RANK, and the files of rank 0.
    """
    run, attempt = map(os.environ.get, ("TORCHDECK_RUN_DIR", "TORCHDECK_ATTEMPT"))
    rank = os.environ.get("RANK", "0")
    return f"{run}/attempts/{attempt}/ranks/{rank}" if run and attempt and rank else ""


def _is_rank() -> bool:
    """Return whether the rank shim started this very process; workers and subprocesses are no ranks."""
    if not _folder():
        return False
    try:
        # without pathlib, which costs each of the script's processes some milliseconds
        with open(f"{_folder()}/holder.pid", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read()) == os.getppid()
    except (OSError, ValueError):
        return False


def _note_failure(error: Exception) -> None:
    """Write inside.json as `contract.metrics.inside_state` does, which may be what cannot be imported."""
    import json

    failure = f"at the start: {type(error).__name__}: {error}"
    try:
        with open(f"{_folder()}/inside.json", "x", encoding="utf-8") as file:  # noqa: PTH123 - as above
            json.dump({"v": 1, "failures": [failure[:500]]}, file)
    except OSError:
        return


def _may_become_rank() -> bool:
    """Return whether this is a process of a program that starts its ranks by itself."""
    names = ("TORCHDECK_RUN_DIR", "TORCHDECK_ATTEMPT")
    return all(map(os.environ.get, names)) and "RANK" not in os.environ


def _watch_for_rank() -> None:
    try:
        from torchdeck.environment import RunContext
        from torchdeck.trainers.inside.spawned_rank import install

        attempt = RunContext.from_env().attempt_layout
        if attempt is not None:
            install(attempt.spawned)
    except Exception:  # noqa: BLE001 - the program runs without it
        return


def _add_callbacks() -> None:
    try:
        from torchdeck.trainers.inside.import_hook import install

        install()
    except Exception as error:  # noqa: BLE001 - the program runs without them
        _note_failure(error)


def _start_heartbeat() -> None:
    try:
        from torchdeck.environment import rank_layout
        from torchdeck.telemetry.doctor.rank_heartbeat import start_heartbeat

        start_heartbeat(rank_layout())
    except Exception:  # noqa: BLE001 - the program runs without it
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
    _start_heartbeat()
    _add_callbacks()
if _may_become_rank():
    _watch_for_rank()
_import_next()
