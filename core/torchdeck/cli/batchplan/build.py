"""`torchdeck batchplan build`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from torchdeck.cli.batchplan.data_source import needs_named, read_source
from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.cli.output import json_text
from torchdeck.data.batch_plan import (
    BatchPlan,
    BatchPlanError,
    check_place,
)
from torchdeck.data.planned_steps import needs_layout
from torchdeck.use_cases.batch_plans.build import PlanRules, build_plan

DEFAULT_OUTPUT = "batch_plan"


def run(args: argparse.Namespace) -> int:
    """Build the plan that was asked for, write it, and say what it is."""
    begun = time.monotonic()
    needs = needs_named(args.run)
    output = args.output or needs.output or DEFAULT_OUTPUT
    epochs = needs.epochs if args.epochs is None else args.epochs
    check_place(output, overwrite=args.overwrite)
    rules = PlanRules(
        args.token_budget,
        args.seed,
        1 if epochs is None else epochs,
        _buckets(args.buckets),
        needs.max_length if args.max_length is None else args.max_length,
        args.too_long,
        args.empty,
        args.pack,
        args.pad_to,
    )
    progress = ProgressLine()
    try:
        source = read_source(args, progress)
        plan = build_plan(source, rules, output, progress, layout=args.layout, overwrite=args.overwrite)
    finally:
        progress.end()
    value = _summary(plan, output, source.unit, time.monotonic() - begun)
    sys.stdout.write(json_text(value, indent=2) + "\n" if args.json else _text(plan, value))
    return 0


def _buckets(text: str) -> int | list[int]:
    words = text.split(",")
    try:
        numbers = [int(word) for word in words]
    except ValueError as error:
        raise BatchPlanError(
            f"--buckets {text}: give a number, or upper bounds like 128,256,512 with commas between"
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers


def _summary(plan: BatchPlan, output: str, unit: str, seconds: float) -> dict[str, Any]:
    columns = [plan.epoch_columns(epoch) for epoch in range(plan.epochs)]
    tokens = sum(int(epoch.tokens.sum(dtype="int64")) for epoch in columns)
    padded = sum(int(epoch.padded_tokens.sum()) for epoch in columns)
    return {
        "path": output,
        "fingerprint": plan.fingerprint,
        "epochs": plan.epochs,
        "microbatches": plan.total_microbatches,
        "unit": unit,
        "tokens": tokens,
        "padding": padded - tokens,
        "counts": plan.meta.to_json()["counts"],
        "seconds": round(seconds, 3),
    }


def _text(plan: BatchPlan, value: dict[str, Any]) -> str:
    share = 100 * value["padding"] / (value["tokens"] + value["padding"])
    epochs = "1 epoch" if plan.epochs == 1 else f"{plan.epochs} epochs"
    return (
        f"{plan.meta.counts.sentence()} (lengths in {value['unit']})\n"
        f"{value['microbatches']:,} microbatches in {epochs}, {value['tokens']:,} tokens, "
        f"{share:.1f} % padding\n"
        f"fingerprint {plan.fingerprint}\n"
        f"{_wanted(plan)}"
        f"written to {value['path']} in {value['seconds']:.1f} s\n"
    )


def _wanted(plan: BatchPlan) -> str:
    """Return the [run] line that a recipe needs to train by the plan; empty if any will do."""
    reason = needs_layout(plan)
    return f"the plan {reason}: recipes need collate(samples, layout=None) for it\n" if reason else ""
