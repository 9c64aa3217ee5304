"""Options of `torchdeck batchplan`: those that need another, and those that a refusal should name."""

from __future__ import annotations

import argparse

_OPTIONS = {
    "(too_long: truncate or drop)": "(--too-long truncate or drop)",
    "raise the maximum length or token budget": "raise --max-length or --token-budget",
    "(empty: drop)": "(--empty drop)",
    "is there already: choose another place, or overwrite it": (
        "is there already: choose another --output, or give --overwrite"
    ),
}
"""Argument names of the library → options of the command line."""


def in_options(refusal: str) -> str:
    """A sentence of the library with the options of the command line in it."""
    for words, option in _OPTIONS.items():
        refusal = refusal.replace(words, option)
    return refusal


def check_dealing_options(args: argparse.Namespace) -> None:
    """Raises BatchPlanError where --balance, --window or --cost would have no effect, or is out of range."""
    from torchdeck.data.batch_plan import BatchPlanError
    from torchdeck.data.batch_plan.balance import check_dealing

    check_dealing(args.balance, args.window, args.cost)
    if args.balance != "none" and args.world_size is None:
        raise BatchPlanError("--balance needs --world-size: it shares out to so many ranks")
    if args.window is not None and args.balance == "none":
        raise BatchPlanError("--window needs --balance tokens or --balance attention: without, none is used")
    if args.cost is not None and args.balance != "attention":
        raise BatchPlanError("--cost needs --balance attention: nothing else uses it")
