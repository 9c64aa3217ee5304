"""Files that a script's arguments name, as the plan looks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.config.loader import config_from_dict
from torchdeck.launching.facts.program_facts import settings_of_program, with_program
from torchdeck.plan.known import Known
from torchdeck.trainers.contradictions import missing_files


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ({"script": "sft.py", "args": ["--deepspeed", "nods.json"]}, ["nods.json, named by --deepspeed"]),
        (
            {"module": "axolotl.cli.train", "args": ["axolotl.yaml"]},
            ["gone.json, named by deepspeed in axolotl.yaml"],
        ),
        (
            {"module": "axolotl.cli.train", "args": ["gone.yaml", "--lr", "1"]},
            ["gone.yaml, named by the arguments"],
        ),
        (
            {"module": "accelerate.commands.launch", "args": ["--config_file=gone.yaml", "sft.py"]},
            ["gone.yaml, named by --config_file"],
        ),
        ({"script": "sft.py", "args": ["--deepspeed", "nods.json", "--deepspeed", "ds.json"]}, []),
        ({"script": "sft.py", "args": ["--deepspeed", "/data/on/the/nodes.json", "--out", "new.json"]}, []),
    ],
)
def test_a_named_config_that_does_not_exist_is_warned_of(
    run: dict[str, object], missing: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sft.py").write_text("")
    (tmp_path / "ds.json").write_text("{}")
    (tmp_path / "axolotl.yaml").write_text("base_model: llama\ndeepspeed: gone.json\n")
    config = config_from_dict({"run": {**run, "working_dir": str(tmp_path)}}, tmp_path)
    settings = settings_of_program(config)
    assert settings is not None
    found = [each.what for each in missing_files(settings)]
    assert found == [f"{what}, does not exist in {tmp_path}" for what in missing]


@pytest.mark.parametrize(("flag", "noted"), [("--model_name_or_path", True), ("--model", False)])
def test_a_model_that_is_not_on_this_machine_is_noted(flag: str, noted: bool, tmp_path: Path) -> None:
    """Not of --model, which names other things, too."""
    (tmp_path / "sft.py").write_text("")
    run = {"script": "sft.py", "args": [flag, "nollama"], "working_dir": str(tmp_path)}
    config = config_from_dict({"run": {**run, "env": {"HF_HOME": str(tmp_path / "hf")}}}, tmp_path)
    note = (
        f"memory is not predicted: nollama, named by {flag}, is neither a folder with a config.json in "
        f"{tmp_path} nor in the Hugging Face cache of this machine"
    )
    assert with_program(config, Known()).notes == ((note,) if noted else ())


LAUNCH = {"module": "accelerate.commands.launch"}


@pytest.mark.parametrize(
    ("run", "nodes", "read"),
    [
        ({**LAUNCH, "args": ["--num_machines=1", "sft.py"]}, ["localhost"], True),
        ({"script": "/env/bin/accelerate", "args": ["launch", "sft.py", "--cpu"]}, ["localhost"], True),
        ({**LAUNCH, "args": ["sft.py"]}, ["node1"], False),
        ({**LAUNCH, "args": ["--cpu", "sft.py"]}, ["localhost"], False),
        ({**LAUNCH, "args": ["--config_file=own.yaml", "sft.py"]}, ["localhost"], False),
        ({"script": "sft.py", "args": ["launch"]}, ["localhost"], False),
    ],
)
@pytest.mark.parametrize("variable", ["HF_HOME", "XDG_CACHE_HOME"])
def test_accelerate_launch_reads_the_file_of_accelerate_config(
    run: dict[str, object],
    nodes: list[str],
    read: bool,
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no other is named: on this machine, where the run's variables say it is; arguments count more."""
    monkeypatch.delenv("HF_HOME", raising=False)
    home = tmp_path / "huggingface" if variable == "XDG_CACHE_HOME" else tmp_path
    (home / "accelerate").mkdir(parents=True)
    (home / "accelerate/default_config.yaml").write_text("mixed_precision: bf16\nnum_machines: 3\n")
    env = {variable: str(tmp_path)}
    config = config_from_dict(
        {
            "run": {**run, "working_dir": str(tmp_path), "env": env, "launcher": "python"},
            "distributed": {"nodes": nodes},
        },
        tmp_path,
    )
    settings = settings_of_program(config)
    assert settings is not None
    assert (settings.mixed is not None and settings.mixed.value == "bf16") is read
    if read:
        assert settings.mixed is not None
        assert settings.mixed.origin == "mixed_precision in default_config.yaml"
    if "--num_machines=1" in str(run):
        assert settings.nodes is not None
        assert settings.nodes.value == "1"
