"""Opening of the window, or a sentence that explains why it cannot open."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from torchdeck_app.window.qt_start import load_qt, why_no_display, why_no_plugin

REFUSED = 3
"""Exit code if no window can be opened: as everywhere in Torchdeck, nothing was started."""
_INSTALL = "pip install 'torchdeck[gui]'"


def main(argv: Sequence[str]) -> int:
    """Show the window until it is closed; return the exit code.

    Args:
        argv: a run file or a script to open, or nothing.
    """
    gc.disable()  # imports leave no garbage; collected after page creation
    why = why_no_display(os.environ)
    if why:
        return _refuse(f"no window can be opened: {why}", argv, "connect with `ssh -X`")
    try:
        load_qt()
        from torchdeck_app.window.application import platform_plugins, run_window
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("PySide6", "shiboken6"):
            raise
        return _refuse("the window needs PySide6, which is not installed", argv, _INSTALL)
    except ImportError as error:
        return _refuse(f"Qt cannot be loaded: {error}", argv, "install that library")
    platform = os.environ.get("QT_QPA_PLATFORM") or ("" if os.environ.get("WAYLAND_DISPLAY") else "xcb")
    why = why_no_plugin(platform_plugins()) if platform.startswith("xcb") else ""
    if why:
        return _refuse(f"no window can be opened: {why}", argv, "install that library")
    return run_window(argv)


def _refuse(why: str, argv: Sequence[str], remedy: str) -> int:
    import shlex

    named = list(argv) or ["RUN.toml"]
    if named[0].endswith(".py"):
        named = ["--script", *named, "--nproc", "1"]
    instead = shlex.join(["torchdeck", "--no-gui", *named])
    print(f"torchdeck: {why}; {remedy}, or run without one: {instead}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
