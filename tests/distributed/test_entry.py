"""`python -m torchdeck.distributed.entry`: a user's own recipe, stops, and clear errors."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ranks.rank_here import RankHere
from support.ranks.recipe_ranks import recipe_settings, run_ranks, start_ranks, wait_for_ranks
from support.training.forked_training import ForkedRun, run_forked
from support.waiting import wait_until
from torchdeck.contract.checkpoints.listing import newest_complete
from torchdeck.contract.checkpoints.manifest import read_manifest
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.progress import read_progress

pytestmark = pytest.mark.processes

OWN_RECIPE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build_model(options):
    return nn.Linear(options["features"], 1)

def build_data(options, split):
    if split == "heldout":
        return None
    x = torch.randn(options["samples"], 3, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, x.sum(1, keepdim=True))

def loss(model, batch):
    x, y = batch
    return ((model(x) - y) ** 2).mean()
"""


def write_recipe(folder: Path, *changes: tuple[str, str]) -> str:
    """OWN_RECIPE with parts replaced, as a file."""
    text = OWN_RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "own.py"
    path.write_text(text)
    return str(path)


def own_settings(run_dir: Path, recipe: str, **training: Any) -> dict[str, Any]:
    data = training.pop("data", {"samples": 64})
    return recipe_settings(run_dir, recipe, model={"features": 3}, data=data, **training)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RankHere:
    return RankHere(monkeypatch, capsys)


def test_a_users_own_recipe_trains(tmp_path: Path) -> None:
    """A file with three functions trains on two ranks, says so, and ends with a final checkpoint."""
    settings = own_settings(tmp_path, write_recipe(tmp_path), steps=None, epochs=5.0, lr=0.1, eval_every=8)
    ranks = run_ranks(settings, tmp_path, 2).succeeded()
    losses = ranks.losses()
    assert len(losses) == 5 * 64 // 8
    assert losses[40] < 0.05 * losses[1]
    assert ranks.heldout() == {}
    assert ranks.stdout[0].endswith("training is complete\n")
    assert ranks.stdout[1] == ""
    manifest = read_manifest(tmp_path / "checkpoints" / "final")
    assert (manifest.step, manifest.world_size, manifest.strategy) == (40, 2, "ddp")
    for rank in range(2):
        progress = read_progress(ranks.rank(rank).progress)
        assert progress is not None
        assert (progress.phase, progress.step, progress.total) == ("done", 40, 40)
        assert progress.slow_step is not None


def test_a_stopped_run_loses_no_evaluation_and_sees_the_same_data(tmp_path: Path) -> None:
    """A stop before a due evaluation leaves it to the resume; data drawn in build_data is the seed's."""
    fixed = 'torch.randn(options["samples"], 3, generator=torch.Generator().manual_seed(0))'
    drawn = "torch.tensor([[__import__('random').random() for _ in range(3)] for _ in range(64)])"
    stop = """    import os, pathlib
    model.calls = getattr(model, "calls", 0) + model.training
    run = pathlib.Path(os.environ["TORCHDECK_RUN_DIR"])
    if os.environ["TORCHDECK_ATTEMPT"] == "1" and f"stop-at-{model.calls}" == run.name:
        (run / "attempts" / "1" / "stop").touch()
    x, y = batch"""
    heldout = ('    if split == "heldout":\n        return None\n', "")
    recipe = write_recipe(tmp_path, heldout, (fixed, drawn), ("    x, y = batch", stop))

    def run(name: str, **more: Any) -> ForkedRun:
        folder = tmp_path / name
        settings = own_settings(folder, recipe, strategy="single", steps=5, eval_every=1)
        return ForkedRun(folder, settings, **more)

    steps = (0, 2)
    *stopped, unbroken = run_forked(*(run(f"stop-at-{step}") for step in steps), run("unbroken"))
    found = [newest_complete(tmp_path / f"stop-at-{step}" / "checkpoints") for step in steps]
    newest = [checkpoint for checkpoint in found if checkpoint is not None]
    resumed = run_forked(
        *(
            run(f"stop-at-{step}", attempt=2, resume=str(checkpoint.path))
            for step, checkpoint in zip(steps, newest, strict=True)
        )
    )
    for step, checkpoint, first, second in zip(steps, newest, stopped, resumed, strict=True):
        assert checkpoint.step in range(step, 4)
        assert first.succeeded().losses() | second.succeeded().losses() == unbroken.succeeded().losses()
        assert sorted([*first.heldout(), *second.heldout()]) == list(range(6))
        assert first.heldout() | second.heldout() == unbroken.heldout()


HELD = """calls = []

def loss(model, batch):
    import os, pathlib, time
    calls.append(1)
    run = pathlib.Path(os.environ["TORCHDECK_RUN_DIR"])
    if len(calls) == 7 and os.environ["TORCHDECK_ATTEMPT"] == "1" and run.name != "whole":
        while not (run / "attempts" / "1" / "stop").exists():
            time.sleep(0.01)"""
"""With two microbatches a step, the fourth of the run that is stopped ends once the stop was asked for."""


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp", marks=pytest.mark.soak)])
def test_stop_and_resume_is_bit_exact(strategy: str, tmp_path: Path) -> None:
    """A stop file ends all ranks at one step; resumed, losses and weights are an unbroken run's."""
    held = ("def loss(model, batch):", HELD)
    dropout = ("return nn.Linear(options", "return nn.Sequential(nn.Dropout(0.3), nn.Linear(options")
    recipe = write_recipe(tmp_path, held, dropout, ('["features"], 1)', '["features"], 1))'))
    fsdp = {"wrap": "size", "min_params": 1}
    settings = own_settings(tmp_path, recipe, strategy=strategy, steps=24, accumulation=2, fsdp=fsdp)
    ranks = start_ranks(settings, tmp_path, 2)
    layout = RunLayout(tmp_path).attempt(1)

    def under_way() -> bool:
        progress = read_progress(layout.rank(1).progress)
        return progress is not None and progress.step >= 2

    wait_until(under_way, 60, "two steps of training")
    layout.stop.touch()
    stopped = wait_for_ranks(ranks, tmp_path).succeeded()
    assert stopped.stdout[0].endswith("training was stopped and can be resumed\n")
    newest = newest_complete(tmp_path / "checkpoints")
    assert newest is not None
    last = max(stopped.losses())
    assert 2 <= last == newest.step < 24
    assert [read_progress(layout.rank(rank).progress).step for rank in range(2)] == [last, last]  # type: ignore[union-attr]

    whole = tmp_path / "whole"
    elsewhere = {
        **settings,
        "checkpoint": {**settings["checkpoint"], "directory": str(whole / "checkpoints")},
    }
    resumed, unbroken = run_forked(
        ForkedRun(tmp_path, settings, 2, attempt=2, resume=str(newest.path)), ForkedRun(whole, elsewhere, 2)
    )
    assert stopped.losses() | resumed.succeeded().losses() == unbroken.succeeded().losses()
    assert min(resumed.losses()) == last + 1
    hashes = [
        {name: entry.sha256 for name, entry in read_manifest(folder / "checkpoints" / "final").files.items()}
        for folder in (tmp_path, whole)
    ]
    weights = [{name: value for name, value in files.items() if name.endswith(".distcp")} for files in hashes]
    assert len(weights[0]) == 2
    assert weights[0] == weights[1]


def test_a_stop_before_the_first_step_is_granted(tmp_path: Path, here: RankHere) -> None:
    """A stop file that was there before training leads to a checkpoint at step 0 and exit code 0."""
    stop = RunLayout(tmp_path).attempt(1).stop
    stop.parent.mkdir(parents=True)
    stop.touch()
    settings = own_settings(tmp_path, write_recipe(tmp_path), strategy="single")
    code, error, _ = here.run(settings, tmp_path)
    assert (code, error) == (0, "")
    newest = newest_complete(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.step == 0


def test_nan_on_one_rank_stops_all_and_names_it(tmp_path: Path) -> None:
    """A loss that is not a number on rank 1 ends both ranks at that step; rank 1 says why, and first."""
    bad = (
        "    x, y = batch\n",
        '    x, y = batch\n    import os\n    bad = os.environ["RANK"] == "1" and model.training\n',
    )
    nan = ("** 2).mean()", '** 2).mean() * (float("nan") if bad and counted(3) else 1)')
    counter = (
        "def loss",
        "calls = []\ndef counted(n):\n    calls.append(1)\n    return len(calls) == n\n\ndef loss",
    )
    settings = own_settings(tmp_path, write_recipe(tmp_path, bad, nan, counter))
    (ranks,) = run_forked(ForkedRun(tmp_path, settings, 2))
    assert ranks.codes == [1, 1]
    assert ranks.error(1)["message"].startswith(
        "RecipeError: the loss in step 3 is nan on rank 1, in the microbatch of samples "
    )
    assert ranks.error(0)["message"] == "RecipeError: the loss in step 3 is not finite on rank 1"
    assert ranks.error(1)["extraInfo"]["time"] < ranks.error(0)["extraInfo"]["time"]
    assert list(ranks.losses()) == [1, 2]


def test_an_exception_is_in_error_json_with_its_traceback(tmp_path: Path) -> None:
    """A recipe that raises ends its rank with 1, error.json in torchrun's format, and soon its peer too."""
    raising = (
        "    x, y = batch",
        '    import os\n    x, y = batch\n    assert os.environ["RANK"] != "1", "no luck"',
    )
    ranks = run_ranks(own_settings(tmp_path, write_recipe(tmp_path, raising)), tmp_path, 2)
    assert ranks.codes == [1, 1]
    error = ranks.error(1)
    assert error["message"] == "AssertionError: no luck"
    assert 'own.py", line' in error["extraInfo"]["py_callstack"]
    assert int(error["extraInfo"]["timestamp"]) == int(error["extraInfo"]["time"])
    assert "AssertionError: no luck" in ranks.stderr[1]


MODEL, END = 'return nn.Linear(options["features"], 1)', "** 2).mean()"
STREAM = "return torch.utils.data.ChainDataset([]) if split else TensorDataset"
NAN_GRADIENT = f"{END} + (model(x) * 0).sqrt().sum() * 0"
CALLBACKS = "def callbacks(settings):\n    return [3]\n\ndef loss"
MISTAKES = {
    "empty": ('options["samples"]', "0", "the training data of recipe {recipe} is empty"),
    "no parameters": (MODEL, "return nn.ReLU()", "has no parameters to train"),
    "not a module": (MODEL, "return 3", "returned int: return a torch.nn.Module"),
    "not scalar": (END, "** 2)", "a tensor of shape (4, 1) and type torch.float32, not a scalar"),
    "not a tensor": (END, f"{END}.item()", "returned float: return a scalar tensor"),
    "detached": (END, f"{END}.detach()", "does not depend on any trainable parameter"),
    "no loss": ("def loss", "def lose", "has no function loss: define loss(model, batch)"),
    "iterable": ("return TensorDataset", "return iter([1]) or TensorDataset", "__len__ and __getitem__"),
    "iterable of known length": (
        "return TensorDataset",
        STREAM,
        "returned ChainDataset: return a map-style data set",
    ),
    "gradient": (END, NAN_GRADIENT, "the gradient's norm in step 1 is nan, first in the gradient of weight"),
    "callbacks": (
        "def loss",
        CALLBACKS,
        "callbacks(settings) of recipe {recipe} returned int: return a list",
    ),
    "no optimizer": (
        "def loss",
        'def build_optimizer(model):\n    return "adamw"\n\ndef loss',
        "build_optimizer of recipe {recipe} returned str: return a torch.optim.Optimizer",
    ),
    "no tokens": (END, f"{END}, 0", "a mean over 0 tokens on all ranks"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_known_mistake_gets_one_sentence(mistake: str, tmp_path: Path, here: RankHere) -> None:
    """Exit code 1 and one line that names the recipe's mistake, the same in error.json, no traceback."""
    old, new, sentence = MISTAKES[mistake]
    recipe = write_recipe(tmp_path, (old, new))
    settings = own_settings(tmp_path, recipe, strategy="single")
    code, error, message = here.run(settings, tmp_path)
    assert code == 1
    assert sentence.format(recipe=recipe) in error
    assert error.count("\n") == 1
    assert error.strip() == message


def test_patience_needs_something_held_out(tmp_path: Path, here: RankHere) -> None:
    """Evaluations are asked for, and the recipe holds nothing out: training would never end by it."""
    settings = own_settings(tmp_path, write_recipe(tmp_path), strategy="single", eval_every=2, patience=1)
    code, error, _ = here.run(settings, tmp_path)
    assert code == 1
    assert "patience is 1, and there is no validation data whose loss could stop falling" in error


def test_a_recipe_that_raises_on_import_shows_its_own_line(tmp_path: Path, here: RankHere) -> None:
    """What it raised, from its own line on: no frame of ours, and nothing chained."""
    recipe = write_recipe(tmp_path, ("def loss", "half = 1 / 0\n\ndef loss"))
    code, error, message = here.run(own_settings(tmp_path, recipe), tmp_path)
    assert (code, message) == (1, "ZeroDivisionError: division by zero")
    rows = error.splitlines()
    assert rows[0] == "Traceback (most recent call last):"
    assert rows[1].startswith(f'  File "{recipe}", line ')
    assert "half = 1 / 0" in rows[2]
    assert rows[-1] == message
    assert error.count("File ") == 1


def test_text_shorter_than_a_sequence_says_what_fits(tmp_path: Path, here: RankHere) -> None:
    """The byte GPT on 20 bytes names the largest context that would do."""
    text = tmp_path / "short.txt"
    text.write_text("nineteen characters")
    data = {"source": str(text), "heldout": 0.0}
    settings = recipe_settings(tmp_path, model={"context": 64}, data=data, strategy="single")
    code, error, _ = here.run(settings, tmp_path)
    assert code == 1
    assert "has 20 bytes, too few for one sample of 64 bytes" in error
    assert "lower model.context to at most 19" in error


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "TORCHDECK_RECIPE is not set"),
        ("{", "TORCHDECK_RECIPE is not JSON"),
        ('{"version": 2}', "has version 2; this Torchdeck reads version 1"),
    ],
)
def test_settings_that_are_none(
    text: str,
    sentence: str,
    tmp_path: Path,
    here: RankHere,
) -> None:
    """Settings that cannot be read are refused with one sentence."""
    code, error, message = here.run(text, tmp_path)
    assert code == 1
    assert sentence in error
    assert sentence in message


def test_single_refuses_two_ranks(tmp_path: Path, here: RankHere) -> None:
    """DistributedStrategy single at world size 2 says which strategies there are for that."""
    settings = own_settings(tmp_path, write_recipe(tmp_path), strategy="single")
    ranks = run_ranks(settings, tmp_path, 2)
    assert ranks.codes == [1, 1]
    assert 'strategy "single" is one rank, but there are 2: use "ddp" or "fsdp"' in ranks.stderr[0]


def test_fsdp_by_block_needs_blocks(tmp_path: Path) -> None:
    """A recipe without blocks under wrap = "block" is told both ways out."""
    ranks = run_ranks(own_settings(tmp_path, write_recipe(tmp_path), strategy="fsdp"), tmp_path, 1)
    assert ranks.codes == [1]
    assert 'set distributed.fsdp.wrap = "size"' in ranks.stderr[0]


def test_leaving_runs_what_was_registered() -> None:
    """A rank ends without finalizing the interpreter, but threads are joined and exit handlers run."""
    code = (
        "import atexit, threading; from torchdeck.distributed.process_end import leave; "
        "atexit.register(print, 'registered'); "
        "threading.Thread(target=lambda: print('joined')).start(); leave(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, "joined\nregistered\n")


def test_leaving_does_not_wait_for_an_idle_executor() -> None:
    """torch.compile leaves a pool of threads that end only when the interpreter tells them to."""
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from torchdeck.distributed.process_end import leave\n"
        "pool = ThreadPoolExecutor(1); pool.submit(print, 'worked').result(); leave(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, "worked\n")
