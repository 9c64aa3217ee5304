"""Torchdeck: plan, launch, watch and resume distributed PyTorch training.

    torchdeck.log({"loss": loss}, step=step)    metrics of this rank; outside a Torchdeck run it does nothing
    torchdeck.launch("run.toml")                what `torchdeck --no-gui run.toml` does

Names are resolved on first use: `import torchdeck` costs milliseconds and the standard library alone.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from torchdeck.config.loader import LoadedConfig
    from torchdeck.config.schema import RunConfig
    from torchdeck.telemetry.media.values import Histogram, Image, Table, Text
    from torchdeck.telemetry.run_log import log
    from torchdeck.use_cases.api import Run

    __version__: str

__all__ = ["Histogram", "Image", "Table", "Text", "__version__", "clone", "launch", "log", "resume"]


def launch(
    config: str | os.PathLike[str] | Mapping[str, Any] | RunConfig | LoadedConfig,
    *,
    overrides: Sequence[str] = (),
    trust: bool = False,
    home: str | os.PathLike[str] | None = None,
    ask: Callable[[str], str | None] | None = None,
    on_warning: Callable[[str], None] | None = None,
) -> Run:
    """Validate, plan, check and start a run. Returns as soon as its controller is started.

    Args:
        config: path of a run.toml, a table with its keys, or a loaded config.
        overrides: overrides such as `training.lr=3e-4`, for a path or a table.
        trust: from now on, trust the code that runs before the ranks start: the folders of a recipe's code,
            and the Python that the config names.
        home: TORCHDECK_HOME. Default: the usual one.
        ask: function that answers a question of a login to a node (a password, a passphrase, whether a host
            key is right), such as `getpass.getpass`. Default: a login that asks fails.
        on_warning: function that is called with each warning of the plan or the checks. Default: warnings
            are printed to standard error.

    Raises:
        Refusal: nothing was started. Its fields are `what`, `why`, `fix`, `file`, `line`, `key`, `node` and
            `page`; `parts()` returns each of several reasons. Its kinds are:
        ConfigError: the config is wrong; `.problems` lists everything.
        PlanError: it does not fit this machine (a ConfigError too).
        PreflightError: a check failed; `.checks` lists the results.
    """
    launched = _api("launch").launch
    run: Run = launched(config, overrides=overrides, trust=trust, home=home, ask=ask, on_warning=on_warning)
    return run


def resume(
    run: str,
    *,
    arguments: Sequence[str] = (),
    home: str | os.PathLike[str] | None = None,
    ask: Callable[[str], str | None] | None = None,
) -> Run:
    """Continue a run that is over from its newest complete checkpoint, in its own directory.

    Args:
        run: its id, a unique prefix of it, its name, or `latest`.
        arguments: with which a script continues, `@{checkpoint}` in them is the checkpoint's path. Default:
            `run.resume_args`, or as known of its trainer.
        home: TORCHDECK_HOME. Default: the usual one.
        ask: as for `launch`.

    Raises:
        Refusal: there is no such run, or it cannot be resumed.
    """
    resumed: Run = _api("resume").resume(run, arguments=arguments, home=home, ask=ask)
    return resumed


def clone(
    run: str,
    *,
    overrides: Sequence[str] = (),
    arguments: Sequence[str] = (),
    home: str | os.PathLike[str] | None = None,
    ask: Callable[[str], str | None] | None = None,
) -> Run:
    """Start a new run with the run file of an earlier one, from the beginning.

    Args:
        run: the earlier one: its id, a unique prefix of it, its name, or `latest`.
        overrides: overrides such as `training.lr=3e-4`.
        arguments: appended to those of its script.
        home: TORCHDECK_HOME. Default: the usual one.
        ask: as for `launch`.

    Raises:
        Refusal: there is no such run, or nothing was started, as for `launch`.
    """
    api = _api("clone")
    cloned: Run = api.clone(run, overrides=overrides, arguments=arguments, home=home, ask=ask)
    return cloned


def _api(verb: str) -> Any:
    try:
        from torchdeck.use_cases import api
    except ModuleNotFoundError as error:
        if error.name not in ("torchdeck.use_cases", "torchdeck.launching", "torchdeck.config"):
            raise
        raise RuntimeError(
            f"torchdeck.{verb} is not part of what is sent to nodes: call it where Torchdeck is installed, "
            "not from inside a rank"
        ) from None
    return api


if not TYPE_CHECKING:  # with it, type checkers would take every name for one that is there

    def __getattr__(name: str) -> Any:
        if name == "log":
            from torchdeck.telemetry.run_log import log_of_this_process

            # kept, so that outside a run a call is an attribute, a function and nothing else
            return globals().setdefault(name, log_of_this_process())
        if name in ("Histogram", "Image", "Table", "Text"):
            from torchdeck.telemetry.media import values

            return getattr(values, name)
        if name == "__version__":
            from torchdeck.contract.package import VERSION

            return VERSION
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
