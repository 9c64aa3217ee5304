"""A finished run of byte-gpt with real checkpoints: a small model that has learned nothing yet."""

import json
from pathlib import Path
from typing import Any

from support.ranks.recipe_ranks import recipe_settings
from support.ranks.torch_process import run_torch
from support.values.audited_run import AuditedRun
from torchdeck.contract.layout import RunLayout

SIZES: dict[str, Any] = {"layers": 1, "heads": 2, "width": 8, "context": 16}
_SAVED = """
import json, sys, torch
from torchdeck.distributed import CheckpointManager
from torchdeck.recipes import byte_gpt
directory, sizes, steps = sys.argv[1], json.loads(sys.argv[2]), map(int, sys.argv[3:])
with CheckpointManager(directory, keep_last=9) as checkpoints:
    for step in steps:
        torch.manual_seed(step)
        model = byte_gpt.build_model(sizes)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.5)
        checkpoints.save(step, model, torch.optim.SGD(model.parameters()))
"""


def text_run(home: Path, *steps: int, recipe: str = "byte-gpt") -> RunLayout:
    """Return the run; each checkpoint has other weights.

    Args:
        home: TORCHDECK_HOME.
        steps: of the checkpoints.
        recipe: that the run's plan names.
    """
    layout = AuditedRun(home).layout
    plan = json.loads(layout.plan.read_text())
    plan["checkpoint"]["directory"] = "@{run_dir}/checkpoints"
    settings = recipe_settings(layout.root, recipe, model=SIZES)
    plan["nodes"][0]["env"]["TORCHDECK_RECIPE"] = json.dumps(settings)
    layout.plan.write_text(json.dumps(plan))
    if steps:
        arguments = [str(layout.checkpoints), json.dumps(SIZES), *map(str, steps)]
        made = run_torch(["-c", _SAVED, *arguments], limit=120)
        assert made.returncode == 0, made.stderr
    return layout
