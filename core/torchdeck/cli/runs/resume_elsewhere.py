"""`torchdeck runs resume ID --nodes …`: a new run on other nodes, from the run's newest checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePath

from torchdeck.cli.refusals import refuse, report
from torchdeck.cli.runs.fencing import keep_fencing
from torchdeck.cli.runs.lookup import find_run
from torchdeck.cli.runs.start import start_and_watch
from torchdeck.config.loader import load_config_text
from torchdeck.config.problems import ConfigError
from torchdeck.config.toml.toml_text import toml_value
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.frozen import frozen_run_file
from torchdeck.runs.follower import read_run
from torchdeck.runs.state import RunState
from torchdeck.use_cases.start import StartRequest


def resume_elsewhere(args: argparse.Namespace) -> int:
    """Start it and watch; 3 if there is nothing to go on from, or the run still goes on."""
    layout = find_run(args.id)
    view = read_run(layout)
    if not view.is_over or view.state is RunState.SUCCEEDED:
        return refuse([f"run {view.id} is {view.state}: there is nothing to resume"], as_json=args.json)
    if view.checkpoint is None:
        return refuse([f"run {view.id} ({view.state}) has no checkpoint to resume from"], as_json=args.json)
    keep_fencing(layout, view)
    return _start(layout, view.checkpoint.path, args)


def _start(layout: RunLayout, checkpoint: str, args: argparse.Namespace) -> int:
    try:
        frozen = frozen_run_file(layout)
    except (OSError, ValueError) as error:
        return refuse([f"{layout.config} cannot be read: {error}"], as_json=args.json)
    where = Path(frozen.source) if frozen.source else layout.root
    overrides = [
        f"distributed.nodes={toml_value(args.nodes)}",
        f"checkpoint.resume={toml_value(checkpoint)}",
    ]
    try:
        loaded = load_config_text(frozen.text, where, overrides)
        if loaded.config.checkpoint.replicas:
            # the newest may have been lost with a node, before it was copied
            folder = str(PurePath(checkpoint).parent)
            overrides[-1] = f"checkpoint.resume={toml_value(folder)}"
            loaded = load_config_text(frozen.text, where, overrides)
    except ConfigError as error:
        return report(error, as_json=args.json)
    request = StartRequest(loaded, loaded.text, str(loaded.path) if frozen.source else "", tuple(overrides))
    return start_and_watch(request, detach=args.detach, as_json=args.json)
