"""Profiles of models: a process of its own, a cache by content, and one sentence for what goes wrong."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.run_files import load, write
from support.waiting import wait_until
from torchdeck.config.schema import RunConfig
from torchdeck.data.batch_plan import build_batch_plan
from torchdeck.launch import profiling
from torchdeck.launch.profile_cache import KEPT, ProfileCache, profile_key
from torchdeck.launch.profiling import ProfilingError, profile_model, wanted_traces
from torchdeck.launch.trust import trust
from torchdeck.nodes.inventory import InterpreterFacts
from torchdeck.plan.heaviest_microbatch import heaviest_microbatch, heavy_microbatches
from torchdeck.plan.model_profile import ModelProfile
from torchdeck.tracing.request import PlannedBatch, WantedTrace

RECIPE = """\
import ctypes, os, subprocess, sys, time
import torch
from torch import nn
from torch.utils.data import TensorDataset

print("hello from the top")

def build_model(options):
    print("not an answer", flush=True)
    os.write(1, b'{"profile": 5}\\n')
    return nn.Linear(4, options.get("width", 3))

def build_data(options, split):
    return TensorDataset(torch.randn(6, 4))

def loss(model, batch):
    return model(batch[0]).mean()
"""

RUN = '[run]\nrecipe = "model.py"\n[model]\nwidth = 3\n[data]\nfile = "data.bin"\n[training]\nsteps = 1\n'
FEW = (WantedTrace(2),)
NEVER = 600


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the recipe is; Torchdeck's home lies elsewhere."""
    write(tmp_path / "code", RECIPE, "model.py")
    return tmp_path / "code"


@pytest.fixture
def config(home: Path, folder: Path) -> RunConfig:
    """A run of a recipe file in a trusted folder."""
    home.mkdir(mode=0o700, exist_ok=True)
    trust(folder, home)
    return load(folder, RUN)


def facts() -> InterpreterFacts:
    return InterpreterFacts(sys.executable, "3.11.7", "2.13.0", "2.0.0")


def hangs(name: str) -> str:
    """A recipe whose build_model starts a process, writes its number to `name`, and never returns."""
    started = 'child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])'
    return RECIPE.replace(
        "    return nn.Linear",
        f"    {started}\n    open({name!r}, 'w').write(str(child.pid))\n"
        f"    time.sleep({NEVER})\n    return nn.Linear",
    )


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_model_is_traced_once(config: RunConfig, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the recipe writes to standard output is no answer; later calls start nothing."""
    told: list[str] = []
    profile = profile_model(config, home, wanted=FEW, on_progress=told.append)
    assert [(info.name, info.shape) for info in profile.parameters] == [("weight", (3, 4)), ("bias", (3,))]
    assert profile.train_samples == 6
    assert told[0] == "starting torch"
    assert told[-1] == "tracing 2 samples"

    def never(*_: Any) -> Any:
        raise AssertionError("a process was started")

    monkeypatch.setattr(profiling, "trace_in_process", never)
    again = profile_model(config, home, wanted=FEW)
    assert again.to_json() == profile.to_json()
    with pytest.raises(AssertionError, match="a process was started"):
        profile_model(config, home, wanted=(WantedTrace(3),))


@pytest.mark.parametrize(
    "damage", [b"", b'{"key": ', b"[]", b'{"key": "other", "profile": {}}', b'{"profile": {"version": 99}}']
)
def test_a_damaged_entry_counts_as_none(damage: bytes, home: Path) -> None:
    """Cut short, of another kind, of another key, or of a newer Torchdeck: it will be traced again."""
    cache = ProfileCache(home)
    profile = ModelProfile("traced", (), (), ("",), "fp32", ())
    assert cache.read("k") is None
    cache.write("k", profile.to_json())
    assert cache.read("k") == profile
    (home / "profiles" / "k.json").write_bytes(damage)
    assert cache.read("k") is None
    cache.write("k", profile.to_json())
    assert cache.read("k") == profile


def test_the_cache_keeps_the_newest(home: Path) -> None:
    """It does not grow without end, and what was read lately stays."""
    cache = ProfileCache(home)
    content = ModelProfile("traced", (), (), ("",), "fp32", ()).to_json()
    for i in range(KEPT):
        cache.write(f"k{i}", content)
        os.utime(home / "profiles" / f"k{i}.json", (i, i))
    assert cache.read("k0") is not None
    cache.write("new", content)
    assert {path.stem for path in (home / "profiles").iterdir()} == {
        "new",
        "k0",
        *(f"k{i}" for i in range(2, KEPT)),
    }


def test_the_key_follows_what_a_profile_depends_on(config: RunConfig, folder: Path) -> None:
    """Code, a data file's content, options, versions and the request change it; unrelated keys do not."""

    def key(one: RunConfig = config, request: Any = None, used: InterpreterFacts | None = None) -> str:
        return profile_key(one, request or {"traces": []}, used or facts())

    keys = [key()]
    assert key() == keys[0]
    assert key(load(folder, RUN + "lr = 0.5\n")) == keys[0]
    keys.append(key(request={"traces": [1]}))
    keys.append(key(used=InterpreterFacts(sys.executable, "3.11.7", "2.14.0", "2.0.0")))
    keys.append(key(load(folder, RUN.replace("[model]", 'env = {A = "1"}\n[model]'))))
    (folder / "data.bin").write_bytes(b"123")
    keys.append(key())
    (folder / "data.bin").write_bytes(b"1234")
    keys.append(key())
    write(folder, "x = 1\n", "helper.py")
    keys.append(key())
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os._exit(7)", "ended with exit code 7 while building the model"),
        ("os.abort()", "ended by SIGABRT while building the model"),
        ("ctypes.string_at(0)", "ended by SIGSEGV while building the model"),
        ("raise ValueError('odd')", r"raised ValueError: odd \(model.py, line 9: `raise ValueError"),
        ("sys.exit(4)", r"ends the process \(exit code 4\)"),
    ],
)
def test_a_recipe_that_ends_the_process(
    line: str, said: str, config: RunConfig, home: Path, folder: Path
) -> None:
    """However it ends there is a sentence, and nothing is kept."""
    write(folder, RECIPE.replace('    print("not', f'    {line}\n    print("not'), "model.py")
    with pytest.raises(ProfilingError, match=said):
        profile_model(config, home, wanted=FEW)
    assert not (home / "profiles").exists()


def test_what_hangs_is_ended_with_all_it_started(config: RunConfig, home: Path, folder: Path) -> None:
    """After the time limit; the sentence says what it was doing."""
    child = folder / "child"
    write(folder, hangs(str(child)), "model.py")
    began = time.monotonic()
    with pytest.raises(ProfilingError, match=r"longer than 12 s while building the model: look for"):
        profile_model(config, home, wanted=FEW, timeout=12)
    assert time.monotonic() - began < 60
    pid = int(child.read_text())
    wait_until(lambda: not is_running(pid), 10, "the end of the recipe's own process")


def test_progress_can_end_it(config: RunConfig, home: Path, folder: Path) -> None:
    """What `on_progress` raises comes through, and the process is gone."""
    child = folder / "child"
    write(folder, hangs(str(child)), "model.py")

    def stop(words: str) -> None:
        if words == "building the model":
            wait_until(child.exists, 30, "the model to be built")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_model(config, home, wanted=FEW, on_progress=stop)
    wait_until(lambda: child.read_text() != "", 10, "the number of the recipe's own process")
    wait_until(lambda: not is_running(int(child.read_text())), 10, "the end of the recipe's own process")


def test_code_is_run_only_from_a_trusted_folder(home: Path, folder: Path) -> None:
    """As before a launch: the sentence says how to trust it."""
    with pytest.raises(ProfilingError, match=r"is code, and its folder .* is not trusted yet: .* --trust"):
        profile_model(load(folder, RUN), home)
    (folder / "model.py").unlink()
    with pytest.raises(ProfilingError, match=r"recipe file .* does not exist"):
        profile_model(load(folder, RUN), home)


@pytest.mark.parametrize(
    ("used", "said"),
    [
        (InterpreterFacts("/x/python", "3.11.0", None, "2.0"), "there is no torch in /x/python"),
        (InterpreterFacts("/x/python", "3.11.0", "2.13.0", None), "there is no numpy in /x/python"),
        (
            InterpreterFacts("/x/python", error="there is no such file"),
            "cannot be used: there is no such file",
        ),
        (InterpreterFacts("/x/python", "3.11.0", "2.13.0", "2.0"), "/x/python could not be started"),
    ],
)
def test_an_interpreter_that_lacks_what_it_takes(
    used: InterpreterFacts, said: str, config: RunConfig, home: Path
) -> None:
    """Without torch or numpy, or not there at all."""
    with pytest.raises(ProfilingError, match=said):
        profile_model(config, home, interpreter=used)


def test_a_script_has_no_profile(home: Path, folder: Path) -> None:
    """Only a recipe's model is known to be one."""
    write(folder, "", "train.py")
    with pytest.raises(ProfilingError, match="only a recipe's model can be traced"):
        profile_model(load(folder, '[run]\nscript = "train.py"\n'), home)


def test_wanted_traces_cover_what_predicting_needs(folder: Path) -> None:
    """Two sizes, with and without checkpointing; with weights cast where FSDP would."""
    text = '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\nmicrobatch = {}\nprecision = "{}"\n'
    plain = wanted_traces(load(folder, text.format(6, "fp32")))
    assert plain == tuple(
        WantedTrace(size, cast=False, checkpointing=c) for size in (6, 3) for c in (False, True)
    )
    one = wanted_traces(load(folder, text.format(1, "bf16")))
    assert {trace.microbatch for trace in one} == {1, 2}
    assert len(one) == len(set(one)) == 8
    kept = wanted_traces(
        load(
            folder,
            text.format(1, "bf16"),
            'distributed.strategy="fsdp"',
            'distributed.fsdp.param_dtype="fp32"',
        )
    )
    assert {trace.cast for trace in kept} == {False}


def test_with_a_batch_plan_its_heaviest_microbatch_is_traced(tmp_path: Path) -> None:
    """Just its samples in its rows, and with the others that might be it; no other size."""
    config = load(tmp_path, '[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\n')
    plan = build_batch_plan(np.array([3, 9, 9, 9, 2, 1]), token_budget=27, max_length=9)
    whole, again = wanted_traces(config, plan)
    heaviest = heaviest_microbatch(plan)
    assert heaviest is not None
    assert whole == WantedTrace(3, batches=(PlannedBatch(tuple(heaviest.sample_ids.tolist()), 9),))
    assert again == replace(whole, checkpointing=True)
    packed = build_batch_plan(np.array([4, 4, 8]), token_budget=16, max_length=8, pack=True)
    (batch,) = wanted_traces(config, packed)[0].batches
    assert sorted(batch.row_sizes or ()) == [1, 2]
    lengths = np.random.default_rng(1).integers(1, 100, size=500)
    heavy = heavy_microbatches(build_batch_plan(lengths, token_budget=256, seed=1))
    mixed = wanted_traces(config, build_batch_plan(lengths, token_budget=256, seed=1))[0].batches
    assert [batch.max_len for batch in mixed] == [microbatch.max_len for microbatch in heavy]
