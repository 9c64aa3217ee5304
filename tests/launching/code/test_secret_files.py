"""Names of files and folders that hold credentials."""

import pytest

from torchdeck.launching.code.scan import is_secret_name

SECRET = [
    *(".env", ".env.local", ".env.production", ".envrc", "prod.env", ".Renviron"),
    *("id_rsa", "id_ed25519", "id_ed25519_work", "ssh_host_rsa_key", "server.pem", "SERVER.PEM", "tls.key"),
    *("cert.p12", "putty.ppk", "AuthKey.p8", "store.kdbx"),
    *(".netrc", "_netrc", ".pypirc", ".npmrc", ".pgpass", ".my.cnf", ".git-credentials", ".dockercfg"),
    *("kaggle.json", ".vault-token", "credentials", "credentials.json", "client_secret_123.json"),
    *("application_default_credentials.json", "service-account-prod.json", ".databrickscfg", ".s3cfg"),
    *("rclone.conf", ".rclone.conf"),
    *(
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.tfvars",
        ".terraformrc",
        "credentials.tfrc.json",
    ),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", "fish_history", ".histfile"),
    *(".zsh_history.bak", ".bash_history-01234.tmp", ".zsh_history~", ".bash_sessions", ".zsh_sessions"),
    *("history.sqlite", "history.sqlite-journal", "history.sqlite3", "xonsh-history.json"),
    *("xonsh-history.sqlite", "xonsh-0a1b2c3d-0000-4000-8000-000000000000.json"),
    *(".git", ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".kaggle", ".terraform"),
]
PLAIN = [
    *("env.py", "id_rsa.pub", "keys.py", "environment", "key", ".gitignore", "a.envy", ".environment"),
    *("tokenizer.json", "token", "tokens.txt", "credentials.py", "history.py", "secret_santa.py", "main.tf"),
    *(".env.example", ".env.template", "prod.tfvars.example", "gcloud", "huggingface", "password_model.py"),
    *("history.txt", "history.db", "training_history.json", "loss_history", "history.csv", "xonsh.json"),
]


@pytest.mark.parametrize("name", SECRET)
def test_names_of_credentials(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_names_of_other_files(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        *(("huggingface", "token"), (".config", "gcloud"), (".config", "gh"), (".cargo", "credentials")),
        *(("nushell", "history.txt"), ("atuin", "history.db"), ("atuin", "history.db-wal")),
    ],
)
def test_names_that_are_credentials_only_in_a_certain_folder(folder: str, name: str) -> None:
    assert is_secret_name(name, folder)
