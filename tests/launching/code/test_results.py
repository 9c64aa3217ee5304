"""Results of trainings are never copied with the code."""

from pathlib import Path

import pytest

from support.links.code_transfer import code_of, written
from torchdeck.launching.code.scan import is_result, is_tracker, scan

RESULTS = (
    *("model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "last.ckpt"),
    *("pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "optimizer.pt", "rng_state_3.pth", "a.gguf"),
    *("random_states_0.pkl", "training_args.bin", "trainer_state.json", "__0_0.distcp", "ckpt.pt"),
    *("events.out.tfevents.1700000000.host.12.0", "run-abc.wandb", "snapshot.pt", "adapter_model.bin"),
)
OTHERS = (
    *("train.py", "train.bin", "val.bin", "config.json", "tokenizer.json", "vocab.pkl", "data.npz", "pt.py"),
    *("requirements.txt", "state.json", "model.py", "modeling.bin.py", "a.csv", "optimizer.json", "x.ptx"),
)


@pytest.mark.parametrize("name", RESULTS)
def test_files_that_trainings_write_are_results(name: str) -> None:
    assert is_result(name)


@pytest.mark.parametrize("name", OTHERS)
def test_code_and_data_are_no_results(name: str) -> None:
    assert not is_result(name)


def test_trackers_are_known_by_name_and_content() -> None:
    """A user's own package of the same name is code."""
    assert is_tracker("wandb", ["run-20260101_120000-abc", "settings"])
    assert is_tracker("wandb", ["offline-run-20260101_120000-abc"])
    assert is_tracker("mlruns", ["0", ".trash"])
    assert is_tracker("lightning_logs", ["version_0"])
    assert not is_tracker("wandb", ["__init__.py", "sdk.py"])
    assert not is_tracker("logs", ["version_0"])


def test_copy_of_code_beside_results_is_as_small_as_the_source(tmp_path: Path) -> None:
    """Whatever their size: a sparse checkpoint of 50 GiB is not even counted."""
    work = written(
        tmp_path / "work",
        {
            "train.py": b"print(1)",
            "lib/checkpoints/io.py": b"",
            "lib/checkpoints/tiny.pt": b"1",
            "conf/a.yaml": b"a: 1",
            "outputs/a/.hydra/config.yaml": b"",
            "outputs/a/model.safetensors": b"1",
            "saved/checkpoint-500/config.json": b"{}",
            "saved/checkpoint-500/model.safetensors": b"1",
            "wandb/run-1-a/files/output.log": b"",
            "lightning_logs/version_0/hparams.yaml": b"",
            "logs/notes.txt": b"",
            "best.pt": b"1",
        },
    )
    with (work / "saved/checkpoint-500/optimizer.pt").open("wb") as file:
        file.truncate(50 * 2**30)
    tree = code_of(work, tmp_path / "home")
    assert set(tree.files) == {"train.py", "lib/checkpoints/io.py", "conf/a.yaml", "logs/notes.txt"}
    assert tree.size == 12
    assert tree.left_out == dict.fromkeys(
        (
            *("best.pt", "lib/checkpoints/tiny.pt", "lightning_logs", "outputs", "wandb"),
            "saved/checkpoint-500",
        ),
        "a result of training",
    )


def test_results_that_the_rules_name_are_copied(tmp_path: Path) -> None:
    """A file, or a folder with all that is in it."""
    work = written(
        tmp_path,
        {
            "train.py": b"",
            "init/start.pt": b"1",
            "outputs/a/model.pt": b"1",
            "outputs/b/model.pt": b"1",
            ".torchdeckignore": b"!init/start.pt\n!outputs/a/\n",
        },
    )
    found = scan(work)
    names = [file.name for file in found.files]
    assert names == [".torchdeckignore", "init/start.pt", "outputs/a/model.pt", "train.py"]
    assert found.results == ["outputs"]


def test_script_to_run_is_copied_whatever_its_name(tmp_path: Path) -> None:
    work = written(tmp_path, {"outputs/train.pt": b"", "outputs/other.pt": b""})
    assert [file.name for file in scan(work, always=work / "outputs/train.pt").files] == ["outputs/train.pt"]


def test_many_results_of_one_folder_are_one_line_of_the_plan(tmp_path: Path) -> None:
    work = written(tmp_path, {"train.py": b"", **{f"s{n}.pt": b"" for n in range(30)}})
    assert code_of(work, tmp_path / "home").left_out == {"./": "30 results of training"}
