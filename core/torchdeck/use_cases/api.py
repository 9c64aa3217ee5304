"""`torchdeck.launch`: the command as a Python function."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.config.loader import LoadedConfig, config_from_dict, load_config
from torchdeck.config.problems import ConfigError
from torchdeck.config.schema import RunConfig
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.check import PreflightError
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.view import RunView
from torchdeck.use_cases.start import StartRequest, start
from torchdeck.use_cases.stop import StopRequest, request_stop
from torchdeck.use_cases.ui import QuietUi

if TYPE_CHECKING:
    from torchdeck.nodes.ssh.target import SshTarget


Ask = Callable[[str], str | None]
"""Called with a question in plain text; returns the answer, or None for no answer."""


def launch(
    config: str | os.PathLike[str] | Mapping[str, Any] | RunConfig | LoadedConfig,
    *,
    overrides: Sequence[str],
    trust: bool,
    home: str | os.PathLike[str] | None,
    ask: Ask | None,
    on_warning: Callable[[str], None] | None,
) -> Run:
    """Implement `torchdeck.launch`, which documents arguments and errors."""
    loaded, source = _loaded(config, overrides)
    request = StartRequest(
        loaded,
        loaded.text,
        source,
        tuple(overrides),
        trust=trust,
        home=None if home is None else Path(home),
    )
    started = start(request, _ui(ask))
    for warning in started.warnings:
        (on_warning or _print_warning)(warning)
    return Run(started.layout, started.controller)


def resume(
    run: str, *, arguments: Sequence[str], home: str | os.PathLike[str] | None, ask: Ask | None
) -> Run:
    """Implement `torchdeck.resume`, which documents arguments and errors."""
    from torchdeck.use_cases.resume import resume as resume_run

    layout = _find(run, home)
    controller = resume_run(layout, "api", _ui(ask), arguments)
    return Run(layout, controller)


def clone(
    run: str,
    *,
    overrides: Sequence[str],
    arguments: Sequence[str],
    home: str | os.PathLike[str] | None,
    ask: Ask | None,
) -> Run:
    """Implement `torchdeck.clone`, which documents arguments and errors."""
    from torchdeck.use_cases.resume import cloned

    layout = _find(run, home)
    request = replace(cloned(layout, overrides, arguments), home=layout.home.root)
    started = start(request, _ui(ask))
    for warning in started.warnings:
        _print_warning(warning)
    return Run(started.layout, started.controller)


def _find(run: str, home: str | os.PathLike[str] | None) -> RunLayout:
    from torchdeck.runs.home import torchdeck_home
    from torchdeck.runs.registry import RunRegistry

    return RunRegistry(torchdeck_home(None if home is None else Path(home))).find(run)


def _ui(ask: Ask | None) -> QuietUi:
    return QuietUi(None if ask is None else CallbackAsker(ask), _print_note)


class CallbackAsker:
    """Asker that prompts for logins by a function from question to answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        """Return the password of `target.login`."""
        return self._ask(f"{'Wrong. ' if again else ''}Password of {target.user}@{target.host}: ") or None

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        """Passphrase of a private key, entered by the user."""
        return self._ask(f"{'Wrong. ' if again else ''}Passphrase of {path}: ") or None

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        """Only a yes counts."""
        answer = self._ask(
            f"{target.name}: host key of {target.host}, port {target.port}, not verified: {key_type} "
            f"{fingerprint}. Is it the right one? (yes/no) "
        )
        return (answer or "").strip().lower() in ("yes", "y")


def _print_warning(text: str) -> None:
    print(f"torchdeck: warning: {text}", file=sys.stderr)


def _print_note(text: str) -> None:
    print(f"torchdeck: {text}", file=sys.stderr)


def _loaded(config: Any, overrides: Sequence[str]) -> tuple[LoadedConfig, str]:
    """Return the config with the text to keep, and its source file; empty: none."""
    if isinstance(config, str | os.PathLike):
        config = load_config(Path(config), overrides)
    elif overrides and not isinstance(config, Mapping):
        raise TypeError("overrides are for a path or a table: a loaded config already has its values")
    if isinstance(config, LoadedConfig):
        return config, str(config.path)
    if isinstance(config, Mapping):
        return _made_by_code(config_from_dict(config, Path.cwd(), overrides), config), ""
    if isinstance(config, RunConfig):
        table = config.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return _made_by_code(config, table), ""
    raise TypeError(
        f"a config is a path, a table, a RunConfig or a LoadedConfig, not {type(config).__name__}"
    )


def _made_by_code(config: RunConfig, table: Mapping[str, Any]) -> LoadedConfig:
    """Create a config from code, with a run file that can be kept."""
    import tomlkit

    return LoadedConfig(
        config=config,
        path=Path.cwd() / "run.toml",
        files=(),
        text=tomlkit.dumps(table),
        written=dict(table),
        locate=lambda _key: ("", None),
    )


__all__ = ["ConfigError", "PreflightError", "Refusal", "Run", "clone", "launch", "resume"]


POLL = 0.1


class Run:
    """A run that was started. Deleting this object, or ending this process, does not affect it."""

    def __init__(self, layout: RunLayout, controller: DetachedProcess | None = None) -> None:
        self.layout = layout
        self._controller = controller
        self._follower = RunFollower(layout)

    @property
    def id(self) -> str:
        return self.layout.root.name

    @property
    def directory(self) -> Path:
        """Folder with everything about the run."""
        return self.layout.root

    def view(self) -> RunView:
        """The current state. Raises NewerFormatError if a newer Torchdeck took the run over."""
        if self._controller is not None:
            self._controller.exit_code()
        return self._follower.refresh()

    def wait(self, timeout: float | None = None) -> RunView:
        """Wait until the run is over, and return its final state.

        Args:
            timeout: maximum wait in seconds. Default: no limit.

        Raises:
            TimeoutError: the run still continues after `timeout` seconds; it is not affected.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        while not (found := self.view()).is_over:
            if limit is not None and time.monotonic() > limit:
                raise TimeoutError(f"run {self.id} is {found.state} after {timeout:g} s")
            time.sleep(POLL)
        return found

    def stop(self, *, now: bool = False) -> None:
        """Request a stop: finish the step, save and exit. With `now`, end the processes at once.

        Raises:
            Refusal: the request cannot be written, or no controller can be started.
        """
        request_stop(StopRequest(self.layout, "api", now=now, ask=False), QuietUi()).look(self.view())

    def __repr__(self) -> str:
        return f"<Run {self.id} in {self.directory}>"
