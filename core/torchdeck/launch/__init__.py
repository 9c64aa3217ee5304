"""From a plan to a run: launcher, controller, transports, preflight.

The package can be called: `torchdeck.launch("run.toml")` is `torchdeck.launch.api.launch("run.toml")`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """This package's own class, since calling is looked up on the type."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from torchdeck.launch.api import launch

        return launch(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
