"""Credentials in a run file's own settings."""

from pathlib import Path

from torchdeck.config.loader import config_from_dict
from torchdeck.launching.code.secret_contents import secrets_in_settings
from torchdeck.launching.prepare import cluster_facts

TOKEN = "hf" + "_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0iL3o"


def test_a_variable_or_argument_that_holds_a_token_is_warned_of(tmp_path: Path) -> None:
    """By its name, never by its value; other variables are not."""
    env = {
        "HF_TOKEN": TOKEN,
        "WANDB_MODE": "offline",
        "NCCL_DEBUG": "INFO",
        "TOKENIZERS_PARALLELISM": "false",
    }
    run = {"script": "train.py", "env": env, "args": ["--steps", "10", "--token", TOKEN]}
    config = config_from_dict({"run": run, "distributed": {"nproc": 1, "devices": "cpu"}}, tmp_path)
    variable, argument = secrets_in_settings(config)
    assert "run.env.HF_TOKEN looks like a Hugging Face token" in variable
    assert 'run.secrets = ["HF_TOKEN"]' in variable
    assert "argument 4 of the script looks like a Hugging Face token" in argument
    assert TOKEN not in variable + argument
    (tmp_path / "train.py").touch()
    assert {variable, argument} <= set(cluster_facts(config).warnings)


def test_settings_without_credentials_are_not_warned_of(tmp_path: Path) -> None:
    config = config_from_dict({"run": {"script": "train.py", "args": ["--lr", "1e-3"]}}, tmp_path)
    assert list(secrets_in_settings(config)) == []
