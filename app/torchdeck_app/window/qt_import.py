"""Loads Qt completely, without its hook that inspects the source of every module imported later."""

from __future__ import annotations

import builtins
import os

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
    nothing if the
    hook is already removed.

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
