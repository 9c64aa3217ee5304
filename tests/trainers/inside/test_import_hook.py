"""Callbacks are added right after the import of a trainer, which stays what it was."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from torchdeck.trainers.inside.import_hook import ImportHook


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a hook for modules, which are in a folder on the module path."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_trainer.py").write_text("class Trainer:\n    pass\n")
    (tmp_path / "half_a_trainer.py").write_text("raise ValueError('no')\n")
    hooks: list[ImportHook] = []

    def install(**additions: Callable[[ModuleType], None]) -> None:
        hooks.append(ImportHook(additions))
        sys.meta_path.insert(0, hooks[-1])

    yield install
    for hook in hooks:
        sys.meta_path.remove(hook)
    for name in ("a_trainer", "half_a_trainer"):
        sys.modules.pop(name, None)


def test_the_addition_gets_the_executed_module_once(hooked: Callable[..., None]) -> None:
    seen: list[ModuleType] = []
    hooked(a_trainer=seen.append)
    assert importlib.util.find_spec("a_trainer") is not None
    assert not seen
    module = importlib.import_module("a_trainer")
    assert seen == [module]
    assert module.__spec__ is not None
    assert "exec_module" not in vars(module.__spec__.loader)
    assert inspect.getsource(module.Trainer).startswith("class Trainer")
    importlib.reload(module)
    assert seen == [module]


def test_a_module_that_fails_to_import_is_not_added_to(hooked: Callable[..., None]) -> None:
    seen: list[ModuleType] = []
    hooked(half_a_trainer=seen.append, no_such_trainer=seen.append)
    with pytest.raises(ValueError, match="no"):
        importlib.import_module("half_a_trainer")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_trainer")
    assert not seen
