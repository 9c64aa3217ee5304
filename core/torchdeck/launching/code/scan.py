"""Finds the files below a folder that a run would need, without reading them."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path

from torchdeck.contract.file_names import text_of
from torchdeck.launching.code.ignore import Ignored, is_marked, rules_above

MAX_FILES = 20_000
MAX_BYTES = 2**30
MAX_LOOKED = 100_000
"""Names checked before the scan of a folder is abandoned; takes about a second."""


@dataclass(frozen=True)
class FoundFile:
    """A regular file to copy."""

    name: str
    """Path relative to the scanned folder, as returned by `text_of`."""
    path: str
    stat: os.stat_result
    knowingly: bool = False
    """.torchdeckignore names this very file: it is copied although it holds credentials."""
    included: bool = False
    """.torchdeckignore includes it: it is copied although it is a result."""


@dataclass
class Found:
    """Files to copy, and files to exclude."""

    files: list[FoundFile] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    """Name → target, both as strings."""
    leading_out: list[str] = field(default_factory=list)
    """Names of links to files that are not copied."""
    secret: list[str] = field(default_factory=list)
    """Names of files and folders whose names indicate credentials."""
    homes: list[str] = field(default_factory=list)
    """Names of folders that are Torchdeck homes."""
    results: list[str] = field(default_factory=list)
    """Names of files and folders that trainings wrote: weights, checkpoints, event files, trackers' runs."""
    unreadable: list[str] = field(default_factory=list)
    whole: bool = True
    """False if the scan stopped because there are too many files."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat.st_size for file in self.files)

    def leave_results_whole(self) -> None:
        """Leave out folders of output with everything in them: no part of a result is copied alone."""
        folders = whole_folders(self.results, [*(file.name for file in self.files), *self.links])
        inside = tuple(f"{folder}/" for folder in folders)
        if inside:
            self.files = [file for file in self.files if file.included or not file.name.startswith(inside)]
            self.results = [name for name in self.results if not name.startswith(inside)] + folders
            self.links = {name: target for name, target in self.links.items() if not name.startswith(inside)}


def scan(
    base: Path,
    without: Iterable[Path] = (),
    *,
    always: Path | None = None,
    max_looked: int = MAX_LOOKED,
) -> Found:
    """Scan `base`.

    Args:
        base: the folder; absolute.
        without: folders to exclude.
        always: a file that rules never exclude: the one to run.
        max_looked: maximum number of names to check.

    Raises:
        RulesError: a file of rules cannot be used.
    """
    walk = _Walk(base, frozenset(map(str, without)), None if always is None else str(always), max_looked)
    walk.look(str(base), rules_above(base))
    walk.found.leave_results_whole()
    walk.found.files.sort(key=lambda file: file.name)
    return walk.found


def _is_home(names: Collection[str]) -> bool:
    """Return whether a folder that contains `names` is a Torchdeck home, here or on a node."""
    return "runs" in names and ("shipped" in names or "leases" in names)


class _Walk:
    def __init__(self, base: Path, without: frozenset[str], always: str | None, left: int) -> None:
        self.found = Found()
        self._base = str(base).rstrip("/") + "/"
        self._without = without
        self._always = always
        self._left = left

    def look(self, folder: str, rules: Ignored) -> None:
        waiting = [(folder, rules)]
        while waiting:
            here, rules = waiting.pop()
            entries = self._entries(here)
            names = [entry.name for entry in entries]
            if here != folder and is_marked(names):
                continue
            if here != folder and _is_home(names) and not rules.knowingly(here):
                self.found.homes.append(self._name(here))
                continue
            base = os.path.basename(here)  # noqa: PTH119 - a text among thousands
            if here != folder and is_tracker(base, names) and not rules.included(f"{here}/"):
                self.found.results.append(self._name(here))
                continue
            rules = rules.within(here, names)
            waiting += [(path, rules) for path in self._sort(here, entries, rules)]

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        if self._left <= 0:
            self.found.whole = False
            return []
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found.append(entry)
                    self._left -= 1
                    if self._left <= 0:
                        self.found.whole = False
                        break
        except OSError:
            self.found.unreadable.append(self._name(folder))
        return found

    def _sort(self, folder: str, entries: list[os.DirEntry[str]], rules: Ignored) -> Iterator[str]:
        """Record the files to copy; yield the folders to scan next."""
        for entry in entries:
            secret = is_secret_name(entry.name, os.path.basename(folder))  # noqa: PTH119 - a text among thousands
            knowingly = (secret or bool(rules.own)) and entry.name != NEVER and rules.knowingly(entry.path)
            if secret and not knowingly:
                if entry.name != NEVER:
                    self.found.secret.append(self._name(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                if entry.path not in self._without and not rules.folder(entry.path):
                    yield entry.path
            elif entry.path == self._always:
                self._note(entry, knowingly=knowingly, included=True)
            elif not rules.file(entry.path):
                included = rules.included(entry.path)
                if included or not is_result(entry.name):
                    self._note(entry, knowingly=knowingly, included=included)
                else:
                    self.found.results.append(self._name(entry.path))

    def _note(self, entry: os.DirEntry[str], *, knowingly: bool, included: bool) -> None:
        try:
            if entry.is_symlink():
                self._note_link(entry)
                return
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return  # gone meanwhile
        if stat.S_ISREG(found.st_mode):
            self.found.files.append(FoundFile(self._name(entry.path), entry.path, found, knowingly, included))

    def _note_link(self, entry: os.DirEntry[str]) -> None:
        """Keep links inside the tree as they are; resolve others to their target, valid from anywhere."""
        target = os.readlink(entry.path)  # noqa: PTH115
        folder = os.path.dirname(entry.path)  # noqa: PTH120 - a text among thousands
        absolute = os.path.normpath(os.path.join(folder, target))  # noqa: PTH118
        name = self._name(entry.path)
        if (absolute + "/").startswith(self._base):
            target = os.path.relpath(absolute, folder)
        else:
            target = absolute
            self.found.leading_out.append(name)
        self.found.links[name] = text_of(target)

    def _name(self, path: str) -> str:
        return text_of(path[len(self._base) :])


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
        "rclone.conf",
        ".rclone.conf",
    ),
    *("kaggle.json", ".vault-token", "credentials", "credentials.*", "client_secret*.json", ".passwd-s3fs"),
    *("application_default_credentials.json", "service-account*.json", "service_account*.json"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc", "terraform.rc"),
    *("secrets.toml", "secrets.yaml", "secrets.yml", "secrets.json", "secrets.ini", ".secrets"),
)
_HISTORIES = (
    *(".*_history", ".*_history.*", ".*_history-*", ".*_history~", ".histfile", "fish_history", ".zhistory"),
    *("history.sqlite*", "xonsh-*.json", "xonsh-history.*", ".rediscli_history", "ConsoleHost_history.txt"),
)
"""Files of shells and interpreters, with their copies; IPython has a `history.sqlite` in each profile."""
_FOLDERS = frozenset(
    (
        *(NEVER, ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".oci", ".kaggle"),
        *(".terraform", ".terraform.d", ".password-store", ".bash_sessions", ".zsh_sessions"),
    )
)
_BELOW = frozenset(
    (
        *((".config", "gcloud"), (".config", "gh"), (".config", "kaggle"), (".config", "rclone")),
        *(("huggingface", "token"), (".huggingface", "token"), ("huggingface", "stored_tokens")),
        *((".cargo", "credentials"), ("nushell", "history.txt")),
        *(("atuin", "history.db"), ("atuin", "history.db-wal")),
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


# Results of trainings, which are never code: weights, checkpoints, event files, folders of trackers.

_WEIGHTS = re.compile(
    r".*\.(?:safetensors|pt|pth|ckpt|gguf|distcp|wandb)"
    r"|(?:pytorch_model|adapter_model|model|optimizer|scheduler|consolidated|training_args)\b[\w.-]*\.bin"
    r"|(?:model|optimizer|pytorch_model)\.(?:safetensors|bin)\.index\.json"
    r"|(?:random_states|sampler|rng_state)_\d+\.(?:pkl|bin|pth)"
    r"|events\.out\.tfevents\..*|trainer_state\.json",
    re.IGNORECASE,
)
_CHECKPOINT = re.compile(
    r"(?:checkpoint|global_step|global_steps|step|iter|epoch|ckpt)[-_=]?\d[\w=.-]*", re.IGNORECASE
)
"""Name of a folder that is one checkpoint: checkpoint-500, step-40, iter_0000100, global_step8."""
_OUTPUTS = frozenset(
    (
        *("output", "outputs", "out", "result", "results", "runs", "logs", "experiments", "multirun"),
        *("checkpoint", "checkpoints", "ckpt", "ckpts", "saved_models", "tb_logs", "tensorboard"),
    )
)
"""Names of folders that programs write to; left out whole if results and no code are in them."""
_CODE = re.compile(r".*\.(?:pyx?|pyi|sh|ipynb|cu|cuh|c|cc|cpp|h|hpp|rs|jl|lua|js|ts)", re.IGNORECASE)
_TRACKERS = {
    "wandb": re.compile(r"(?:offline-)?run-\d.*|latest-run|debug\.log"),
    "mlruns": re.compile(r"\d+|\.trash|models"),
    "lightning_logs": re.compile(r"version_\d+"),
}
"""Folder of a tracker → a name of which one is in it."""


def is_result(name: str) -> bool:
    """Return whether a file of this name, without its folder, was written by a training."""
    return _WEIGHTS.fullmatch(name) is not None


def is_tracker(folder: str, names: Collection[str]) -> bool:
    """Return whether a folder of this name that contains `names` is where a tracker keeps its runs."""
    pattern = _TRACKERS.get(folder)
    return pattern is not None and any(map(pattern.fullmatch, names))


def whole_folders(results: Sequence[str], files: Iterable[str]) -> list[str]:
    """Return folders of output that are left out whole: results are in them, and no code.

    Args:
        results: paths of results, relative, with slashes.
        files: paths of all other files.

    Returns:
        The topmost such folders, sorted.
    """
    candidates = {folder for name in results for folder in _parents(name) if _is_output(folder)}
    with_code = {folder for name in files if _CODE.fullmatch(name) for folder in _parents(name)}
    kept = candidates - with_code
    return sorted(folder for folder in kept if kept.isdisjoint(_parents(folder)))


def _is_output(folder: str) -> bool:
    name = posixpath.basename(folder)
    return name.lower() in _OUTPUTS or _CHECKPOINT.fullmatch(name) is not None


def _parents(name: str) -> list[str]:
    found = []
    while name := posixpath.dirname(name):
        found.append(name)
    return found
