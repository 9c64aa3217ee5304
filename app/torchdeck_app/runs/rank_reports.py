"""Requests to the ranks of a running run, and their answers as text. In a worker."""

from __future__ import annotations

from collections.abc import Sequence

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.examination import shared_stacks
from torchdeck.use_cases.ranks.profile import SECONDS, profile_ranks
from torchdeck.use_cases.ranks.stacks import ask_for_stacks
from torchdeck.use_cases.ui import Ui

ORIGIN = "window"


def stacks_report(layout: RunLayout, ui: Ui) -> str:
    """Have all ranks examined; return at which line each is. Raises Refusal."""
    found = ask_for_stacks(layout, ORIGIN, ui)
    lines = [stack.line for stack in shared_stacks(found)]
    return "\n".join([found.sentence, *lines, f"All threads and collectives: {found.layout.root}"])


def profile_report(layout: RunLayout, ranks: Sequence[int], ui: Ui) -> str:
    """Profile `ranks` for 5 s, the usual ones if it is empty; return where the traces are. Raises Refusal."""
    found = profile_ranks(layout, ranks, SECONDS, ORIGIN, ui)
    lines = []
    for each in found:
        note = f" ({each.note})" if each.path is not None and each.note else ""
        lines.append(f"Rank {each.rank}: {each.note if each.path is None else each.path}{note}")
    return "\n".join([*lines, "Open traces in https://ui.perfetto.dev or chrome://tracing."])
