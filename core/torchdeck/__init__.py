"""Torchdeck: plan, launch, watch and resume distributed PyTorch training.

    torchdeck.log({"loss": loss}, step=step)    metrics of this rank; outside a Torchdeck run it does nothing
    torchdeck.launch("run.toml")                what `torchdeck --no-gui run.toml` does

Names are resolved on first use: `import torchdeck` costs milliseconds and the standard library alone.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from torchdeck.telemetry.run_log import log as log

__all__ = ["__version__", "launch", "log"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "log":
        from torchdeck.telemetry.run_log import log_of_this_process

        # kept, so that outside a run a call is an attribute, a function and nothing else
        return globals().setdefault(name, log_of_this_process())
    if name == "launch":
        return _launch()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _launch() -> Any:
    """The package torchdeck.launch, which can be called."""
    import importlib

    try:
        return importlib.import_module("torchdeck.launch")
    except ModuleNotFoundError as error:
        if error.name != "torchdeck.launch":
            raise
        raise AttributeError(
            "torchdeck.launch is not part of what is sent to nodes: call it where Torchdeck is installed, "
            "not from inside a rank"
        ) from None
