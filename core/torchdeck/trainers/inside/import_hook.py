"""Waits for the import of known trainers, then adds callbacks to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchdeck.trainers.inside.report import Report


class ImportHook:
    """Finder on `sys.meta_path` that finds nothing itself: it adds a call after the import of modules."""

    def __init__(
        self, additions: Mapping[str, Callable[[ModuleType], None]], report: Report | None = None
    ) -> None:
        """Wait for modules.

        Args:
            additions: name of a module → function that is called once with the module; it must not raise.
            report: of this rank, for callbacks that a trainer finds by itself.
        """
        self.report = report
        self._additions = dict(additions)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the other finders' spec of a module that is waited for; None for all others."""
        add = self._additions.get(name)
        if add is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._add_after(spec, add)
                return spec
        return None

    def _add_after(self, spec: ModuleSpec, add: Callable[[ModuleType], None]) -> None:
        """Call `add` after the module is executed. The loader keeps its type: tools ask it for the source."""
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if loader is None or execute is None or not hasattr(loader, "__dict__"):
            return

        def execute_and_add(module: ModuleType) -> None:
            del loader.exec_module  # the instance's own: the class's is back
            execute(module)
            if self._additions.pop(spec.name, None) is not None:
                add(module)

        loader.exec_module = execute_and_add  # type: ignore[method-assign]  # on this instance alone


def install() -> None:
    """Install the hook in this rank, once."""
    if installed_report() is not None:
        return
    from torchdeck.trainers.inside.additions import additions, report_here

    report = report_here()
    if report is not None:
        sys.meta_path.insert(0, ImportHook(additions(report), report))


def installed_report() -> Report | None:
    """Return the report of this rank; None in any other process."""
    reports = (hook.report for hook in sys.meta_path if isinstance(hook, ImportHook))
    return next((report for report in reports if report is not None), None)
