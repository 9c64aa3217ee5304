"""The records of one rank, gone through some at a time."""

from __future__ import annotations

from torchdeck.data.sample_log import SampleLog, SampleLogError, SampleRecord


class RankRecords:
    """Where one rank's log was left.

    Attributes:
        problem: why no more of it can be read, as a sentence; empty while it can.
    """

    def __init__(self, log: SampleLog) -> None:
        self._log = log
        self.problem = ""

    def take(self, count: int) -> list[SampleRecord]:
        """The next records, at most `count`; fewer where the log ends or is damaged."""
        records: list[SampleRecord] = []
        if self.problem:
            return records
        try:
            for record in self._log.records():
                records.append(record)
                if len(records) == count:
                    break
        except (SampleLogError, OSError) as error:
            self.problem = str(error)
        return records
