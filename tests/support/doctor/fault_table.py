"""The fault table as a part of pytest: its options, and its rates, printed at the end; a soak judges them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from support.doctor import fault_rows
from support.doctor.cases import Case, spread


class FaultTable:
    """Plugin that collects the rows of the fault table."""

    @staticmethod
    def add_options(parser: pytest.Parser) -> None:
        parser.addoption(
            "--fault-rows",
            metavar="FOLDER",
            help="write a JSON file for each case of the doctor's fault table; those of earlier runs count",
        )
        parser.addoption(
            "--fault-cases",
            metavar="N",
            type=int,
            help="with --soak: N cases of the fault table, by a fixed seed",
        )

    def __init__(self, config: pytest.Config) -> None:
        self._worker = hasattr(config, "workerinput")
        self._judges = bool(config.getoption("--soak")) and not self._worker
        folder = config.getoption("--fault-rows")
        if self._worker:  # these have the environment of the process that started them
            return
        if folder is None and self._judges:
            own = tempfile.TemporaryDirectory(prefix="torchdeck-fault-rows-")
            config.add_cleanup(own.cleanup)
            folder = own.name
        if folder is not None:
            os.environ[fault_rows.FOLDER] = str(Path(folder).resolve())

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        count = config.getoption("--fault-cases")
        if count is None:
            return
        cases = [case for item in items if (case := _case(item)) is not None]
        chosen = spread(cases, count)
        left_out = [item for item in items if (case := _case(item)) is not None and case not in chosen]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._judges and fault_rows.complaints(self._rows()) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        found = [] if self._worker else self._rows()
        if found:
            terminalreporter.section("fault table")
            terminalreporter.write_line(fault_rows.markdown(found))
            for missed in fault_rows.complaints(found):
                terminalreporter.write_line(f"GOAL MISSED: {missed}")

    def _rows(self) -> list[fault_rows.Row]:
        folder = os.environ.get(fault_rows.FOLDER)
        return fault_rows.rows(Path(folder)) if folder else []


def _case(item: pytest.Item) -> Case | None:
    """Return the case of a test of the fault table; None for other tests."""
    callspec = getattr(item, "callspec", None)
    case = None if callspec is None else callspec.params.get("case")
    return case if isinstance(case, Case) else None
