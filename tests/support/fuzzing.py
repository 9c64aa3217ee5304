"""Giving a reader the cases of a strategy, in a process of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support.reader_process import Reader, ReaderProcess, cases


def read_all(reader: Reader, documents: st.SearchStrategy[bytes], soak: int = 5000) -> None:
    """Fail if `reader` raises or exceeds a bound on any of the cases: some fifty, or `soak` under --soak."""
    with ReaderProcess(reader) as process:

        @settings(max_examples=cases(soak))
        @given(documents)
        def each(case: bytes) -> None:
            process.read(case)

        each()
