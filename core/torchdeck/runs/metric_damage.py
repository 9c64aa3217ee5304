"""Metrics of a run whose rows do not match their checksums. No numpy: `runs show` has it, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.checksums import CHECKSUMS_SUFFIX, ChecksumReader
from torchdeck.contract.metrics.segment_format import (
    HEADER_LIMIT,
    SEGMENT_SUFFIX,
    SegmentError,
    decode_header,
)

COMPARED_AT_ONCE = 64 << 20
"""Bytes of rows that one look compares: some 50 ms."""
MOST_FILES = 4096
"""Files that one look opens."""
_FIRST_LOOK = 64 * 1024
"""Bytes in which the header of nearly every segment ends."""
_NAMED = 3
"""Damaged blocks of a file that are named."""


class MetricDamage:
    """Compares the rows of a run's metrics with their checksums, each once. Use it from one thread at a time.

    Args:
        layout: of the run.
    """

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._readers: dict[Path, ChecksumReader] = {}

    def look(self, budget: int = COMPARED_AT_ONCE, *, is_over: bool = True) -> tuple[str, ...]:
        """Compare what is new; return one sentence per damaged file.

        Args:
            budget: bytes to compare, about.
            is_over: the run has ended. Until then missing rows count as not copied here yet.
        """
        paths = (path for place in self._folders() for path in sorted(place.glob(f"*{CHECKSUMS_SUFFIX}")))
        for _, path in zip(range(MOST_FILES), paths, strict=False):
            if budget <= 0:
                break
            try:
                budget -= self._reader(path.with_suffix(SEGMENT_SUFFIX)).check(budget, is_over=is_over)
            except (OSError, SegmentError):
                continue  # who reads its rows reports a segment that cannot be read
        return tuple(self._sentence(path, found) for path, found in self._readers.items() if found.damaged)

    def _folders(self) -> Iterator[Path]:
        yield from sorted(self._layout.attempts.glob("*/ranks/*/metrics"))
        yield from sorted(self._layout.nodes.glob("*/system"))

    def _reader(self, segment: Path) -> ChecksumReader:
        if segment not in self._readers:
            with open_regular(segment) as file:
                start = file.read(_FIRST_LOOK)
                header = decode_header(start) or decode_header(start + file.read(HEADER_LIMIT))
            if header is None:
                raise SegmentError("its header is incomplete")
            self._readers[segment] = ChecksumReader(segment, header)
        return self._readers[segment]

    def _sentence(self, segment: Path, reader: ChecksumReader) -> str:
        damaged = reader.damaged
        rows = ", ".join(f"{first + 1:,} to {last:,}" for first, last in damaged[:_NAMED])
        more = f" and {len(damaged) - _NAMED} more blocks" if len(damaged) > _NAMED else ""
        name = segment.relative_to(self._layout.root)
        return (
            f"rows {rows}{more} of {name} do not match their checksum: metrics shown from them may be wrong"
        )
