"""Importing paramiko without invoke, which it uses for `Match exec` in an ssh config and for nothing else.

That is half of what the import takes: asyncio, unittest and a YAML of its own.
"""

from __future__ import annotations

import sys
import threading

INVOKE = "invoke"
_LOCK = threading.Lock()


def import_paramiko() -> None:
    """Import it, to be called before its first use; where it is not, the import only takes longer."""
    with _LOCK:
        if "paramiko" in sys.modules or INVOKE in sys.modules:
            return
        # an import of it fails for the moment, as where it is not installed, which paramiko allows for
        sys.modules[INVOKE] = None  # type: ignore[assignment]
        try:
            import paramiko  # noqa: F401
        finally:
            del sys.modules[INVOKE]


def give_invoke() -> None:
    """For an ssh config with `Match exec`."""
    import invoke  # type: ignore[import-untyped, unused-ignore]
    import paramiko.config

    paramiko.config.invoke = invoke  # type: ignore[attr-defined, unused-ignore]
