"""Giving a reader the cases of a strategy, in a process of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support.few_examples import cases
from support.fuzz.reader_process import Reader, ReaderProcess


def read_all(reader: Reader, documents: st.SearchStrategy[bytes]) -> None:
    """Fail if `reader` raises or exceeds a bound on any of the cases: some thirty, or 5,000 under --soak."""
    with ReaderProcess(reader) as process:

        @settings(max_examples=cases())
        @given(documents)
        def each(case: bytes) -> None:
            process.read(case)

        each()
