"""The names of torchdeck.compat: typed, documented, light, and part of what nodes receive."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import torchdeck
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.runtime_bundle import ship

PACKAGES = ("batch_plans", "ddp_fsdp", "strategies", "augmentation", "object_api", "object_api.distributed")
MODULES = sorted(
    path.relative_to(Path(torchdeck.__file__).parents[1]).with_suffix("").as_posix().replace("/", ".")
    for path in (Path(torchdeck.__file__).parent / "compat").rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_documented_and_typed(package: str) -> None:
    module = import_module(f"torchdeck.compat.{package}")
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        assert inspect.getdoc(value), name
        call = value if inspect.isfunction(value) else None
        if call is not None:
            hints = {*inspect.get_annotations(call)}
            assert hints >= {*inspect.signature(call).parameters, "return"}, name


@pytest.mark.parametrize("module", MODULES)
def test_public_methods_are_documented(module: str) -> None:
    """Those of classes that a module defines; a Protocol's are described by the functions that take it."""
    for _, kind in inspect.getmembers(import_module(module), inspect.isclass):
        if kind.__module__ != module or getattr(kind, "_is_protocol", False):
            continue
        for name, value in vars(kind).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                assert inspect.getdoc(value), f"{kind.__name__}.{name}"


WRONG = [
    ("augmentation.gen_distributed_augmentation_params(1, 0, 'mild')", "config is 'mild': expected Augmen"),
    ("augmentation.stream_distributed_augmentation_chain(8, 0, 1, 'mild')", "config is 'mild': expected Aug"),
    ("augmentation.gen_distributed_augmentation_params(1, 0, seed=3)", "did you mean 'base_seed'?"),
    ("augmentation.RankAwareSeedGenerator(0, 2).generate_seed(1)", "needs rank"),
    ("batch_plans.shard_batch_plan([3], batch_plans.DistributedConfig())", "plan is an object of type list"),
    ("ddp_fsdp.wrap_model_ddp('model')", "model is 'model': expected Module"),
    ("ddp_fsdp.FSDP(3, sharding='full')", "did you mean 'sharding_strategy'?"),
    ("ddp_fsdp.DistributedSampler(8)", "needs batch_size"),
    ("strategies.find_latest_checkpoint(3)", "experiment_dir is 3: expected a text or Path"),
    ("strategies.CheckpointManager('x', keeplast=1)", "did you mean 'keep_last'?"),
    ("strategies.launch_distributed('train.py')", "needs config"),
    ("object_api.distributed.DistributedTrainer(3, None, None)", "model is 3: expected Module"),
    ("object_api.distributed.DDPConfig(bucket_size=1)", "did you mean 'bucket_size_mb'?"),
    ("object_api.SequentialModel().add(3)", "module is 3: expected Module"),
]


@pytest.mark.parametrize(("call", "right"), WRONG, ids=[call for call, _ in WRONG])
def test_a_wrong_call_says_what_is_right(call: str, right: str) -> None:
    names = {package: import_module(f"torchdeck.compat.{package}") for package in PACKAGES[:-1]}
    with pytest.raises(Refusal) as caught:
        eval(call, dict(names))  # noqa: S307 - rows of this file
    assert right in str(caught.value)


@pytest.mark.processes
def test_ranks_on_nodes_have_it(torchdeck_home: Path) -> None:
    """From the folder that nodes receive; plans and augmentation need no torch, and nothing launches."""
    code = (
        "import sys\n"
        "import torchdeck.compat.augmentation, torchdeck.compat.batch_plans\n"
        "assert 'torch' not in sys.modules\n"
        "print(torchdeck.__file__)\n"
        "from torchdeck.compat.strategies.launcher import launch_distributed\n"
        "launch_distributed('train.py', 'config.yaml')\n"
    )
    folder = ship(torchdeck_home)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin"},
        cwd=folder,
    )
    assert done.stdout == f"{folder}/torchdeck/__init__.py\n", done.stderr
    assert "torchdeck.launch is not part of what is sent to nodes" in done.stderr
