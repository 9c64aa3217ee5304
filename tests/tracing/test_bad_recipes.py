"""Recipes that cannot be traced, or not without real memory: one sentence each, with the line at fault."""

from pathlib import Path

import pytest

from torchdeck.contract.plan.model_profile import ModelProfile
from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.tracing import tracer as tracer_module
from torchdeck.tracing.faults import TracingError
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_recipe

pytestmark = pytest.mark.long

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
        (changed("build_model", "return nn.Linear(2, 2, device='meta')"), "weight .* is on the meta device"),
        (changed("build_model", "nn.Linear(2, 2).to(0)"), r"build_model.* needs a GPU"),
        (
            changed(
                "loss",
                "return nn.functional.embedding(batch[0].long() * 0, model[2].weight, sparse=True).sum()",
            ),
            r"loss.* makes sparse tensors, .*use dense gradients \(sparse=False\)",
        ),
        (changed("blocks", "return [nn.ModuleList(model)]"), "ModuleList, which is not a module of"),
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


def test_a_batch_without_an_equal_is_traced_with_real_memory(tmp_path: Path) -> None:
    """Torch makes no fake tensors of rows of unequal length."""
    rows = "torch.nested.nested_tensor([torch.ones(i + 1, 4) for i in range(4)], layout=torch.jagged)"
    text = GOOD.replace("nn.functional.mse_loss(model(batch[0]), batch[1])", "model(batch).values().mean()")
    profile = trace(tmp_path, f"{text}\n\ndef collate(samples):\n    return {rows}\n")
    assert "the batch has tensors that need their values" in profile.notes[0]


@pytest.mark.parametrize(
    "line",
    [
        "rates = [x.item() for x in torch.linspace(0, 0.1, 4)]",
        "assert torch.isfinite(nn.Linear(3, 3).weight).all()",
        "nn.Linear(3, 3).weight.detach().numpy()",
        "nn.init.trunc_normal_(torch.empty(4, 4), std=0.02)",
    ],
)
def test_a_model_built_from_values_is_traced_like_any_other(line: str, tmp_path: Path) -> None:
    """Built with real memory, or without drawing at all, and traced without."""
    plain, profile = trace(tmp_path, GOOD), trace(tmp_path, changed("build_model", line))
    assert profile.notes == ()
    assert profile.to_json() == plain.to_json()


@pytest.mark.parametrize("change", ["double()", "to(torch.float64)", "to('cpu').double()"])
@pytest.mark.parametrize("values", ["", ".item()"])
def test_a_model_may_be_converted_while_it_is_built(change: str, values: str, tmp_path: Path) -> None:
    """Parameters, gradients and what backward keeps are in the type it was converted to."""
    lines = [f"torch.ones(1){values}", f"return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)).{change}"]
    text = changed("build_model", *lines).replace("batch[0])", "batch[0].double())")
    profile = trace(tmp_path, text.replace("batch[1])", "batch[1].double())"))
    assert {info.dtype for info in profile.parameters} == {"float64"}
    assert profile.traces[0].values.sum() == 8 * (4 * 8 + 8 + 8 + 1)


def test_recurrent_layers_built_from_values_know_their_weights(tmp_path: Path) -> None:
    """An LSTM has a list of its weights beside its parameters: each of them gets its gradient."""
    lines = ["torch.ones(1).item()", "return nn.LSTM(4, 3)"]
    text = changed("build_model", *lines).replace(
        "mse_loss(model(batch[0]), batch[1])", "relu(model(batch[0])[0]).sum()"
    )
    profile = trace(tmp_path, text[: text.index("def blocks")])
    assert profile.traces[0].values.sum() == sum(info.size for info in profile.parameters)


def test_shared_weights_built_from_values_stay_shared(tmp_path: Path) -> None:
    """One parameter, in the unit that comes first."""
    lines = ["torch.ones(1).item()", "a, b = nn.Linear(4, 4), nn.Linear(4, 4)", "b.weight = a.weight"]
    profile = trace(tmp_path, changed("build_model", *lines, "return nn.Sequential(a, b, nn.Linear(4, 1))"))
    assert [info.name for info in profile.parameters] == [
        "0.weight",
        "0.bias",
        "1.bias",
        "2.weight",
        "2.bias",
    ]


@pytest.mark.parametrize(
    ("dtype", "size"), [("complex64", 8), ("uint16", 2), ("float8_e4m3fn", 1), ("int8", 1)]
)
def test_buffers_of_many_types_are_counted(dtype: str, size: int, tmp_path: Path) -> None:
    """Rotations of positions, quantised weights, tables."""
    lines = [
        "model = nn.Sequential(nn.Linear(4, 1))",
        f"model.register_buffer('t', torch.ones(6, dtype=torch.{dtype}))",
    ]
    (buffer,) = trace(tmp_path, changed("build_model", *lines, "return model")).buffers
    assert (buffer.dtype, buffer.size) == (dtype, 6 * size)


def test_a_type_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """With the tensor's name."""
    lines = [
        "model = nn.Sequential(nn.Linear(4, 1))",
        "model.register_buffer('t', torch.ones(6, dtype=torch.float8_e4m3fnuz))",
    ]
    with pytest.raises(RecipeError, match="t of the model is float8_e4m3fnuz, which cannot be predicted"):
        trace(tmp_path, changed("build_model", *lines, "return model"))


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
