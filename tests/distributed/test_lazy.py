"""What may be imported without torch, and what can be imported from where."""

import subprocess
import sys

import pytest

import torchdeck.data
import torchdeck.distributed

TORCHS_OWN = {"DistributedSampler"}
"""In torchdeck.distributed it is a sampler of torch, too."""
NUMPY_ONLY = sorted(set(torchdeck.data.HOMES) - TORCHS_OWN)


def python(code: str) -> int:
    """Exit code of a fresh interpreter that runs `code`."""
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


@pytest.mark.processes
def test_light_parts_do_not_import_torch() -> None:
    """The package, the manifest, settings and the entry before it trains leave torch alone."""
    code = (
        "import sys, torchdeck.distributed, torchdeck.contract.checkpoints.manifest\n"
        "import torchdeck.distributed.entry, torchdeck.distributed.rank_settings\n"
        "import torchdeck.distributed.recipe_loading\n"
        "assert torchdeck.distributed.SettingsError.__name__ == 'SettingsError'\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert python(code) == 0


@pytest.mark.processes
def test_the_package_itself_is_standard_library() -> None:
    """Importing torchdeck.distributed brings neither torch nor numpy."""
    code = "import sys, torchdeck.distributed\nsys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert python(code) == 0


@pytest.mark.processes
def test_numpy_things_do_not_import_torch() -> None:
    """Every name of torchdeck.data, asked of torchdeck.distributed, is had without torch."""
    code = (
        "import sys, torchdeck.distributed as d\n"
        f"for name in {NUMPY_ONLY}: getattr(d, name)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert python(code) == 0


@pytest.mark.parametrize("package", [torchdeck.data, torchdeck.distributed], ids=["data", "distributed"])
def test_names_are_resolved(package: object) -> None:
    """Every promised name is there under that name, and dir() lists it; another is an AttributeError."""
    homes: dict[str, str] = package.HOMES  # type: ignore[attr-defined]  # both packages have it
    for name in homes:
        assert getattr(package, name).__name__ == name
    assert set(homes) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'Trainner'"):
        _ = package.Trainner  # type: ignore[attr-defined]  # that is the point


def test_both_packages_have_the_same_things() -> None:
    """What torchdeck.data exports, torchdeck.distributed exports too, the very same objects."""
    for name in NUMPY_ONLY:
        assert getattr(torchdeck.data, name) is getattr(torchdeck.distributed, name)
    for name in TORCHS_OWN:
        assert issubclass(getattr(torchdeck.distributed, name), getattr(torchdeck.data, name))


@pytest.mark.parametrize(
    "name",
    [
        "BatchPlan",
        "load_batch_plan",
        "save_batch_plan",
        "shard_batch_plan",
        "interleave_microbatches",
        "compute_shard_stats",
        "DistributedRangeSplitter",
        "validate_distributed_setup",
        "DistributedSampler",
        "DistributedBatchIterator",
        "CheckpointPosition",
        "iter_from_checkpoint",
        "RankAwareSeedGenerator",
        "AugmentationConfig",
        "get_preset",
        "gen_distributed_augmentation_params",
        "stream_distributed_augmentation_chain",
    ],
)
def test_the_names_people_expect_are_there(name: str) -> None:
    """The names that other libraries' users look for can be imported from torchdeck.distributed."""
    assert name in torchdeck.distributed.HOMES
