"""Recipes that cannot be traced, or not without real memory: one sentence each, with the line at fault."""

from pathlib import Path

import pytest

from torchdeck.distributed.settings import FsdpSettings
from torchdeck.plan.model_profile import ModelProfile
from torchdeck.recipes.errors import RecipeError
from torchdeck.tracing import tracer as tracer_module
from torchdeck.tracing.faults import TracingError
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_recipe

GOOD = """\
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

def build_data(options, split):
    return TensorDataset(torch.randn(6, 4), torch.randn(6, 1))

def loss(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])

def blocks(model):
    return [model[0]]
"""


def trace(folder: Path, text: str) -> ModelProfile:
    path = folder / "model.py"
    path.write_text(text)
    wanted = (WantedTrace(4), WantedTrace(4, checkpointing=True))
    request = TraceRequest(1, str(path), {}, {}, "fp32", FsdpSettings(), traces=wanted)
    return trace_recipe(request, lambda _: None)


def changed(function: str, *lines: str) -> str:
    """The good recipe with `lines` first in `function`."""
    head = next(line for line in GOOD.splitlines() if line.startswith(f"def {function}("))
    return GOOD.replace(head, "\n    ".join([head, *lines]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('raise KeyError("x")', r"fails to import: KeyError: 'x' \(model.py, line 1: `raise KeyError"),
        (
            "import sys\nsys.exit(3)",
            r"the import of recipe .* ends the process \(exit code 3\) \(model.py, line 2",
        ),
        (
            changed("build_model", 'raise ValueError("no such size")'),
            r"build_model\(options\) of recipe .* raised ValueError: no such size \(model.py, line 6: `raise",
        ),
        (
            changed("build_model", "return nn.Linear(2, 2).cuda()"),
            r"needs a GPU \(model.py, line 6.*use the CPU",
        ),
        (changed("build_model", 'x = torch.zeros(2, device="cuda")'), r"build_model.* needs a GPU"),
        (changed("build_model", 'nn.Linear(2, 2).to("cuda:1")'), r"build_model.* needs a GPU"),
        (
            changed("build_model", "import sys; sys.exit()"),
            r"build_model.*ends the process \(exit code None\)",
        ),
        (
            changed("build_model", "return 5"),
            "build_model of recipe .* returned int: return a torch.nn.Module",
        ),
        (changed("build_model", "return nn.LazyLinear(3)"), "has no shape before the first forward"),
        (changed("loss", "batch = [b.cuda() for b in batch]"), r"loss\(model, batch\).* needs a GPU"),
        (
            changed("loss", "return model(batch[0]) @ batch[0]"),
            r"loss.* raised RuntimeError: .* \(model.py, line 12",
        ),
        (changed("loss", "return 3.0"), "returned float: return a scalar tensor"),
        (changed("build_data", 'open("/nowhere/data.bin")'), "build_data.* raised FileNotFoundError"),
        (changed("build_data", "return []"), "training data of recipe .* is empty"),
        (changed("build_data", "return [3, [4]]"), "collating of recipe .* raised TypeError"),
        (changed("blocks", "return model.layers"), r"blocks\(model\) of recipe .* raised AttributeError"),
        (changed("blocks", "return [nn.ReLU()]"), r"blocks\(model\) returned ReLU, which is not a module of"),
        ("x = 1", "has no function build_model"),
    ],
)
def test_a_recipe_that_fails_says_where(text: str, said: str, tmp_path: Path) -> None:
    """The function, what was raised, the file, the line and its code."""
    with pytest.raises((RecipeError, TracingError), match=said):
        trace(tmp_path, text)


@pytest.mark.parametrize(
    "line",
    [
        "scale = batch[0].sum().item()",
        "assert batch[0].abs().max() > 0",
        "batch[0].numpy()",
        "batch = [b[batch[0][:, 0] > -1e9] for b in batch]",
    ],
)
def test_what_depends_on_values_is_traced_with_real_memory(line: str, tmp_path: Path) -> None:
    """The same totals as without that line, whose own memory is small; and a note says so."""
    plain = trace(tmp_path, GOOD)
    profile = trace(tmp_path, changed("loss", line))
    assert not plain.notes
    assert "traced with real tensors" in profile.notes[0]
    assert "model.py, line 12" in profile.notes[0]
    assert profile.parameters == plain.parameters
    for real, fake in zip(profile.traces, plain.traces, strict=True):
        assert real.values.sum() == fake.values.sum()
        assert set(fake.kinds.tolist()) == set(real.kinds.tolist())


def test_a_model_built_from_values_is_traced_with_real_memory(tmp_path: Path) -> None:
    """A size that is computed with a tensor while the model is built."""
    profile = trace(tmp_path, changed("build_model", "size = int(torch.tensor([3, 4]).float().sum().item())"))
    assert profile.parameters[0].shape == (8, 4)


def test_a_large_model_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real memory is for small models; the sentence says what to avoid."""
    monkeypatch.setattr(tracer_module, "MAX_PARAMETERS", 10)
    with pytest.raises(TracingError, match=r"too large \(49 parameters\).*avoid \.item\(\)"):
        trace(tmp_path, changed("loss", "batch[0].sum().item()"))


def test_tokens_may_be_a_tensor(tmp_path: Path) -> None:
    """A number of tokens that only data could tell is left open, and nothing else."""
    text = GOOD.replace("batch[1])\n\ndef blocks", "batch[1]), (batch[0] > 0).sum()\n\ndef blocks")
    profile = trace(tmp_path, text)
    assert profile.tokens_per_sample is None
    assert len(profile.traces) == 2


def test_a_recipe_without_blocks_has_fewer_traces(tmp_path: Path) -> None:
    """Checkpointing needs blocks; a note says that they are missing."""
    profile = trace(tmp_path, GOOD[: GOOD.index("def blocks")])
    assert [each.checkpointing for each in profile.traces] == [False]
    assert [note.split(",")[0] for note in profile.notes] == [
        "the recipe has no function blocks(model)",
        "the recipe names no blocks",
    ]
