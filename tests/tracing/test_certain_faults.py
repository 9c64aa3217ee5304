"""Which failures of tracing every rank would have too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from torchdeck.distributed.rank_settings import FsdpSettings
from torchdeck.tracing.faults import TracingError
from torchdeck.tracing.request import TraceRequest, WantedTrace
from torchdeck.tracing.tracer import trace_recipe

WHOLE = """
from torch import nn
def build_model(options):
    {build}
    return nn.Linear(1, 1)
def build_data(options, split):
    {data}
def loss(model, batch):
    {loss}
"""
Fault = Callable[[str], TracingError]


@pytest.fixture
def fault(tmp_path: Path) -> Fault:
    def trace(content: str) -> TracingError:
        path = tmp_path / "mine.py"
        path.write_text(content)
        request = TraceRequest(1, str(path), {}, {}, "fp32", FsdpSettings(), traces=(WantedTrace(1),))
        with pytest.raises(TracingError) as caught:
            trace_recipe(request, lambda _: None)
        return caught.value

    return trace


def recipe(
    build: str = "pass", data: str = "return [1.0] * 8", loss: str = "return model(batch).mean()"
) -> str:
    """A recipe with other lines in its functions."""
    return WHOLE.format(build=build, data=data, loss=loss)


@pytest.mark.parametrize(
    "content",
    [
        "def build_model(:",
        "import there_is_no_such_module",
        "1 / 0",
        "x = 1",
        recipe("raise ValueError('layers must be even')"),
        recipe("undefined_name"),
        recipe("return 5"),
    ],
)
def test_import_and_build_model_are_certain(fault: Fault, content: str) -> None:
    """What they raise by themselves, they raise in every rank."""
    assert fault(content).certain


@pytest.mark.parametrize(
    "content",
    [
        recipe("raise RuntimeError('needs CUDA')"),
        recipe("nn.Linear(1, 1).cuda()"),
        recipe("open('/nowhere/vocabulary.txt')"),
        recipe("import os; os.environ['MASTER_PORT']"),
        recipe("nn.Linear(-1, 1)"),
        recipe(data="raise ValueError('no data here')"),
        recipe(loss="raise ValueError('no loss')"),
    ],
)
def test_what_may_be_otherwise_in_ranks_is_not(fault: Fault, content: str) -> None:
    """GPUs, files, variables of ranks, what torch refuses of tensors without memory; data and loss."""
    assert not fault(content).certain
