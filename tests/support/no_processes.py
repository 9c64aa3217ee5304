"""Fails a test that starts a process and does not say so by its marker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

_HOW = "this test starts a process ({}): mark it with @pytest.mark.processes"


@contextmanager
def no_processes() -> Iterator[None]:
    """Fail whatever starts a process in this block; not what a thread of another test started earlier."""
    begun: list[str] = []

    def refuse(what: str) -> NoReturn:
        begun.append(what)
        # an exception that the code under test does not catch
        pytest.fail(_HOW.format(what), pytrace=True)

    def execute(_: object, arguments: object, *__: Any) -> NoReturn:
        refuse(str(arguments)[:200])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "_execute_child", execute)
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
            patch.setattr(os, name, lambda *_, name=name, **__: refuse(f"os.{name}"))
        yield
    if begun:  # in a thread, or suppressed
        pytest.fail(_HOW.format(begun[0]), pytrace=False)
