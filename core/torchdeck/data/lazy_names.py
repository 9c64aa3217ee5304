"""Names of a package that are imported at first access (PEP 562), and their list for `help` and `dir`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

Name = tuple[str, str]
"""The module that defines a public name, and one line for the list in `help`."""


def lazy_names(
    package: str, names: Mapping[str, Name]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `dir` lists exactly the public names.

    Hide both from type checkers (`if not TYPE_CHECKING`): a module with `__getattr__` has every name.

    Args:
        package: its `__name__`.
        names: its public names.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(names[name][0]), name)

    return get, lambda: sorted(names)


def with_names(text: str | None, names: Mapping[str, Name]) -> str:
    """Return a package's docstring with the list of its public names, one line each."""
    width = max(map(len, names))
    rows = "\n".join(f"    {name:{width}}  {names[name][1]}" for name in sorted(names))
    return f"{(text or '').strip()}\n\n{rows}\n"
