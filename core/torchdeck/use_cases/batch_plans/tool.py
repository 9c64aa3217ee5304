"""Process that builds a run's batch plan: `python -m torchdeck.use_cases.batch_plans.tool`.

Reads one request from standard input, JSON on one line: {"config": a run file's tables, "token_budget": N,
"pack": bool}. Answers on standard output, one JSON object per line: {"progress": text} any number of times,
then {"done": folder} or {"error": sentence}. SIGINT ends it, and nothing is half written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.config.loader import config_from_dict
from torchdeck.contract.refusal import Refusal
from torchdeck.data.batch_plan import BatchPlanError, check_place
from torchdeck.use_cases.batch_plans.build import PlanRules, build_plan, needs_of
from torchdeck.use_cases.batch_plans.source import of_run

NAMED = "the run file"
"""The config may be in no file."""
_EVERY = 0.1
"""Seconds between two reports."""


def main() -> int:
    """Answer one request; return the process's exit code."""
    try:
        answer: dict[str, Any] = {"done": _build(json.loads(sys.stdin.readline()), _Reports())}
    except KeyboardInterrupt:
        return 130
    except Refusal as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": str(error) if error.filename is None else f"{error.filename}: {error.strerror}"}
    _say(answer)
    return 0 if "done" in answer else 1


def _build(request: Mapping[str, Any], progress: _Reports) -> str:
    config = config_from_dict(request["config"], Path.cwd())
    needs = needs_of(config, NAMED)
    output = needs.output
    if output is None:
        raise BatchPlanError(f"{NAMED} has no training.batch_plan")
    check_place(output, overwrite=True)
    rules = PlanRules(
        int(request["token_budget"]),
        epochs=1 if needs.epochs is None else needs.epochs,
        max_length=needs.max_length,
        pack=bool(request["pack"]),
    )
    build_plan(of_run(config, NAMED), rules, output, progress, overwrite=True)
    return output


class _Reports:
    """Reports progress, but not too often."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            share = f" ({100 * done // total} %)" if total else ""
            _say({"progress": f"{what}: {done:,} of {total:,}{share}"})


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
