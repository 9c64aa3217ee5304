"""Qt, loaded without its look into the source of every module that is imported after it."""

from __future__ import annotations

import builtins


def load_qt() -> None:
    """Import PySide6 and take its hook for `from __feature__ import …` out of Python's import again.

    The hook, shiboken's `feature_imported`, searches the source of each module for the word PySide6 as
    its import ends. That takes a quarter of the time that the window's imports need, and keeps 8 MB of
    sources; and as it asks modules that are still being executed for attributes, pydantic's `__getattr__`
    may fail there with "cannot import name". Torchdeck uses none of those features. Does nothing where
    the hook is out already.

    Raises:
        ImportError: PySide6 is not installed, or a library that it needs is not.
    """
    import PySide6.QtCore  # noqa: F401 - for what it does to Python's import

    original = getattr(builtins, "__orig_import__", None)  # where shiboken keeps what it has replaced
    if original is not None:
        builtins.__import__ = original
