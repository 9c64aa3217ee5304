"""Reader of one metric in MLflow's folders: mlruns/EXPERIMENT/RUN/metrics/NAME, a line per value.

A line is "milliseconds value step", and possibly the name and digest of a data set.
"""

from __future__ import annotations

from pathlib import Path

from torchdeck.trainers.files.growing import LineFile
from torchdeck.trainers.reading import Reading

FOLDER = "metrics"


class MlflowMetric(LineFile):
    """Follows the values of one metric."""

    def __init__(self, path: Path, name: str, since: float = 0.0) -> None:
        """Create a reader.

        Args:
            path: the file.
            name: the metric: the path below the folder `metrics`.
            since: unix seconds at which the run began; values before are another run's.
        """
        super().__init__(path)
        self._name = name
        self._since = since

    def reading(self, line: bytes) -> Reading | None:
        words = line.decode("utf-8", "replace").split()
        if len(words) not in {2, 3, 5} or max(map(len, words[:3])) > 64:
            return None
        time, value = int(words[0]) / 1000.0, float(words[1])
        step = int(words[2]) if len(words) > 2 else 0
        if not 0 < time < 1e11 or not 0 <= step < 2**62 or time < self._since:
            return None
        return Reading({self._name: value}, step, time=time)
