"""A package's public names are the same for type checkers, for Python, and in `help` and `dir`."""

import ast
import inspect
import pydoc
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import torchdeck
import torchdeck.data
import torchdeck.distributed
import torchdeck.integrations
from torchdeck.distributed.rank_settings import DdpOptions, DdpSettings, TrainingOptions, TrainingSettings
from torchdeck.environment import DistributedConfig, DistributedValues

PACKAGES = [torchdeck.data, torchdeck.distributed, torchdeck.integrations]


def ids(package: ModuleType) -> str:
    return package.__name__


def imported_for_checkers(package: ModuleType) -> dict[str, str]:
    """Name → module of the imports under `if TYPE_CHECKING`; `import *` stands for that package's."""
    assert package.__file__ is not None
    found: dict[str, str] = {}
    for block in ast.parse(Path(package.__file__).read_text()).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name):
            for statement in block.body:
                assert isinstance(statement, ast.ImportFrom)
                assert statement.module is not None
                for alias in statement.names:
                    found |= torchdeck.data.HOMES if alias.name == "*" else {alias.name: statement.module}
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=ids)
def test_the_lists_agree(package: ModuleType) -> None:
    """`__all__`, the imports for type checkers and the homes have the same names and modules."""
    assert sorted(package.__all__) == sorted(package.HOMES)
    assert len(set(package.__all__)) == len(package.__all__)
    assert imported_for_checkers(package) == package.HOMES


@pytest.mark.parametrize("package", PACKAGES, ids=ids)
def test_dir_is_the_public_names(package: ModuleType) -> None:
    """Completion shows public names and nothing else."""
    assert dir(package) == sorted(package.__all__)


def test_dir_of_the_package_itself() -> None:
    """The same for `torchdeck`."""
    assert dir(torchdeck) == sorted(torchdeck.__all__)


@pytest.mark.parametrize("package", PACKAGES[:2], ids=ids)
def test_help_has_one_line_for_each(package: ModuleType) -> None:
    """`help` begins with the public names, one line each, and describes no other."""
    text = pydoc.plain(pydoc.render_doc(package))
    description = text.partition("DESCRIPTION\n")[2].partition("PACKAGE CONTENTS")[0]
    rows = [line.split(maxsplit=1) for line in description.splitlines() if line.startswith(" " * 8)]
    assert [name for name, _ in rows] == sorted(package.__all__)
    assert all(line and len(line) < 80 for _, line in rows)
    shown = [name for name, _ in inspect.getmembers(package)]
    assert shown == sorted(package.__all__)


@pytest.mark.parametrize("package", PACKAGES[:2], ids=ids)
def test_import_star(package: ModuleType) -> None:
    """`from package import *` brings all of them."""
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)  # noqa: S102 - a star import is allowed at module level only
    assert set(package.__all__) <= set(names)


def test_strategies_are_public_classes() -> None:
    """Each strategy that comes with the library, by its class."""
    from torchdeck.distributed.strategies.base import STRATEGIES

    kinds = {value for name, value in inspect.getmembers(torchdeck.distributed) if name.endswith("Strategy")}
    ours = {kind for kind in STRATEGIES.values() if kind.__module__.startswith("torchdeck.")}
    assert ours <= kinds


@pytest.mark.parametrize(
    ("keywords", "settings"),
    [(TrainingOptions, TrainingSettings), (DdpOptions, DdpSettings), (DistributedValues, DistributedConfig)],
    ids=["training", "ddp", "environment"],
)
def test_typed_keywords_are_fields(keywords: type, settings: type) -> None:
    """The keywords that type checkers allow have the types of the fields that they set."""
    fields = get_type_hints(settings)
    hints = get_type_hints(keywords)
    assert hints == {name: fields[name] for name in hints}
    if settings is not TrainingSettings:  # which has fields for other arguments, too
        assert set(hints) == set(fields)
