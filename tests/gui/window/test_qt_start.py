"""What loading Qt leaves of Python's own import; in processes of their own, where nothing is imported yet."""

import subprocess
import sys

READ_SOURCES = """
import inspect
asked = []
inspect.getsource, real = lambda module: asked.append(module) or real(module), inspect.getsource
{load}
import pydantic
print(sum(getattr(module, "__name__", "").startswith("pydantic") for module in asked))
"""


def sources_read(load: str) -> int:
    code = READ_SOURCES.format(load=load)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


def test_no_source_is_searched_for_what_is_imported_after_qt() -> None:
    assert sources_read("from torchdeck_app.window.qt_start import load_qt; load_qt()") == 0


def test_a_second_time_changes_nothing() -> None:
    assert sources_read("from torchdeck_app.window.qt_start import load_qt; load_qt(); load_qt()") == 0
