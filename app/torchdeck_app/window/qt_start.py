"""Preparation of Qt: whether a window can be opened, and loading Qt without its import hook."""

from __future__ import annotations

import builtins
import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

_NO_SCREEN = ("offscreen", "minimal", "vnc", "linuxfb", "eglfs", "minimalegl", "vkkhrdisplay")
"""Qt platforms that need neither X nor Wayland."""


def why_no_display(environment: Mapping[str, str]) -> str:
    """Return why no window can be shown, as a sentence without its period; empty if one can.

    The check follows Qt: QT_QPA_PLATFORM, else Wayland if its socket responds, else X.
    """
    asked = environment.get("QT_QPA_PLATFORM", "")
    platforms = [name.partition(":")[0] for name in asked.split(";") if name] or ["wayland", "xcb"]
    if any(name in _NO_SCREEN for name in platforms):
        return ""
    if "wayland" in platforms and _wayland_answers(environment):
        return ""
    if "xcb" not in platforms:
        return f"QT_QPA_PLATFORM is {asked}, and no such display answers"
    display = environment.get("DISPLAY", "")
    if not display:
        return "there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)"
    if not _x_answers(display):
        return f"the display {display} cannot be opened"
    return ""


def why_no_plugin(platforms: Path) -> str:
    """Return which system library Qt's window lacks, as a sentence without its period; else empty.

    Args:
        platforms: the folder of Qt's platform plugins. Call this after importing QtGui, whose libraries they
            use.
    """
    try:
        ctypes.CDLL(str(platforms / "libqxcb.so"))
    except OSError as error:
        return f"a library is missing: {error}"
    return ""


def _wayland_answers(environment: Mapping[str, str]) -> bool:
    name = environment.get("WAYLAND_DISPLAY", "")
    if not name:
        return False
    import socket  # not needed for the first paint without Wayland

    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(2.0)
        try:
            line.connect(str(Path(environment.get("XDG_RUNTIME_DIR", "/")) / name))
        except OSError:
            return False
    return True


def _x_answers(display: str) -> bool:
    """Return whether a client may connect, with the cookie it would present; True if that cannot be
    tested.
    """
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError:
        return True  # Qt's plugin is checked next and names the library
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(display.encode(), None)
    answers: bool = xcb.xcb_connection_has_error(connection) == 0
    xcb.xcb_disconnect(connection)
    return answers


_LAZY = "PYSIDE6_OPTION_LAZY"


def load_qt() -> None:
    """Import PySide6 with all of its classes at once, and remove its import hook.

    PySide6 would create each class when it is first imported by name. With a thread that imports the pages
    while the GUI thread creates widgets, one window in a hundred ended by SIGSEGV (6.11.3). All classes at
    once cost 0.13 s and 14 MB.

    The hook is for `from __feature__ import …`: at the end of each import, shiboken's `feature_imported`
    searches the module's source for the word PySide6. That takes a quarter of the time that the window's
    imports need, and keeps 8 MB of sources. It also reads attributes of modules that are still being
    executed, so that pydantic's
    `__getattr__` may fail there with "cannot import name". Torchdeck uses none of those features. Does
    nothing if the hook is already removed.

    Raises:
        ImportError: PySide6 is not installed, or a library that it needs is not.
    """
    asked = os.environ.get(_LAZY)
    os.environ.setdefault(_LAZY, "0")
    try:
        # creating a module also creates what it needs of others: these are all that the window uses
        import PySide6.QtGui
        import PySide6.QtSvg
        import PySide6.QtWidgets  # noqa: F401
    finally:
        if asked is None:
            del os.environ[_LAZY]  # no run inherits it

    original = getattr(builtins, "__orig_import__", None)  # where shiboken keeps the function it replaced
    if original is not None:
        builtins.__import__ = original
