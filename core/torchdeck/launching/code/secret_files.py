"""Names of files and folders that hold credentials: never copied, unless .torchdeckignore names them."""

from __future__ import annotations

import re
from fnmatch import translate

NEVER = ".git"
"""Git's own folder, which no rule can include."""

_KEYS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "ssh_host_*_key", "*.pem", "*.key", "*.p8", "*.pk8"),
    *("*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.agekey"),
)
_ENVIRONMENTS = (".env", ".env.*", ".env-*", ".env_*", ".envrc", "*.env", ".Renviron")
_PASSWORDS = (
    *(".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd", ".msmtprc"),
    *(
        ".git-credentials",
        ".pypirc",
        ".npmrc",
        ".dockercfg",
        ".databrickscfg",
        ".cdsapirc",
        ".s3cfg",
        ".boto",
    ),
    *("kaggle.json", ".vault-token", "credentials", "credentials.*", "client_secret*.json", ".passwd-s3fs"),
    *("application_default_credentials.json", "service-account*.json", "service_account*.json"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc", "terraform.rc"),
    *("secrets.toml", "secrets.yaml", "secrets.yml", "secrets.json", "secrets.ini", ".secrets"),
)
_HISTORIES = (
    ".*_history",
    ".histfile",
    "fish_history",
    ".zhistory",
    ".rediscli_history",
    "ConsoleHost_history.txt",
)
_FOLDERS = frozenset(
    (
        *(NEVER, ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".oci", ".kaggle"),
        *(".terraform", ".terraform.d", ".password-store"),
    )
)
_BELOW = frozenset(
    (
        *((".config", "gcloud"), (".config", "gh"), (".config", "kaggle"), (".config", "rclone")),
        *(("huggingface", "token"), (".huggingface", "token"), ("huggingface", "stored_tokens")),
        *((".cargo", "credentials"), (".ipython", "history.sqlite")),
    )
)
"""Folder and name of files that are secret only in that folder."""
_PUBLIC = re.compile(
    r".*\.pub|.*[._-](?:example|sample|template|dist)|credentials\.(?:py|md|rst|txt)", re.IGNORECASE
)
_NAME = re.compile(
    "|".join(translate(name) for name in (*_KEYS, *_ENVIRONMENTS, *_PASSWORDS, *_HISTORIES)), re.IGNORECASE
)


def is_secret_name(name: str, folder: str = "") -> bool:
    """Return whether a file or folder of this name holds credentials.

    Public keys do not; templates (`.env.example`) are judged by their content.

    Args:
        name: without its folder.
        folder: the name of its folder.
    """
    if name in _FOLDERS or (folder, name) in _BELOW:
        return True
    return _PUBLIC.fullmatch(name) is None and _NAME.match(name) is not None
