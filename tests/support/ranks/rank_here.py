"""One rank of a recipe run in the test's own process: quick, for what ends before or soon after the start."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchdeck.contract.layout import RunLayout
from torchdeck.distributed import entry
from torchdeck.telemetry.doctor.rank_heartbeat import RankHeartbeatThread


class RankHere:
    """Runs `torchdeck.distributed.entry` as a rank that is alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(
        self, settings: Mapping[str, Any] | str, run_dir: Path, *, attempt: int = 1, resume: str = ""
    ) -> tuple[int, str, str]:
        """Exit code, standard error and error.json's message."""
        text = settings if isinstance(settings, str) else json.dumps(settings)
        given = {"RECIPE": text, "RUN_DIR": str(run_dir), "ATTEMPT": str(attempt), "RESUME": resume}
        for name, value in given.items():
            self._monkeypatch.setenv(f"TORCHDECK_{name}", value)
        self._monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_ERROR_FILE"):
            self._monkeypatch.delenv(name, raising=False)
        try:
            code = entry.main()
        finally:  # the thread is meant for a process that ends with its rank
            for thread in threading.enumerate():
                if isinstance(thread, RankHeartbeatThread):
                    thread.end()
        error = RunLayout(run_dir).attempt(attempt).rank(0).error
        message = json.loads(error.read_bytes())["message"]["message"] if error.exists() else ""
        return code, self._capsys.readouterr().err, message
