"""Imports that Python's collector leaves in peace."""

import gc
from collections.abc import Iterator

import pytest

from torchdeck.distributed.imports_that_stay import imports_that_stay


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """The collector is on, whoever came before; what a test froze may be collected again."""
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_rests_and_then_looks_at_new_things_alone() -> None:
    """Off meanwhile, on afterwards; what there was by then is out of its sight."""
    with imports_that_stay():
        assert not gc.isenabled()
        made: list[object] = []
        made.append(made)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert not any(seen is made for seen in gc.get_objects())


def test_it_is_on_again_after_an_import_that_failed() -> None:
    """The error is whoever imports' own."""
    with pytest.raises(ImportError, match="no_such_module"), imports_that_stay():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    """Whoever had turned it off has a reason."""
    gc.disable()
    with imports_that_stay():
        pass
    assert not gc.isenabled()
