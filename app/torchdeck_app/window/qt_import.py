"""Qt, loaded whole, and without its look into the source of every module that is imported after it."""

from __future__ import annotations

import builtins
import os

_LAZY = "PYSIDE6_OPTION_LAZY"


def load_qt() -> None:
    """Import PySide6, all of its classes at once, and take its hook out of Python's import again.

    PySide6 would make each class when it is first imported by name. Where a thread imports the places while
    the GUI thread makes widgets, that ended one window in a hundred by SIGSEGV (6.11.3); all classes at once
    cost 0.13 s and 14 MB.

    The hook is for `from __feature__ import …`: shiboken's `feature_imported` searches the source of each
    module for the word PySide6 as its import ends. That takes a quarter of the time that the window's imports
    need, and keeps 8 MB of sources; and as it asks modules that are still being executed for attributes,
    pydantic's `__getattr__` may fail there with "cannot import name". Torchdeck uses none of those features.
    Does nothing where the hook is out already.

    Raises:
        ImportError: PySide6 is not installed, or a library that it needs is not.
    """
    asked = os.environ.get(_LAZY)
    os.environ.setdefault(_LAZY, "0")
    try:
        # what a module needs of another one is made with it: these are all that the window uses
        import PySide6.QtGui
        import PySide6.QtSvg
        import PySide6.QtWidgets  # noqa: F401
    finally:
        if asked is None:
            del os.environ[_LAZY]  # no run inherits it

    original = getattr(builtins, "__orig_import__", None)  # where shiboken keeps what it has replaced
    if original is not None:
        builtins.__import__ = original
