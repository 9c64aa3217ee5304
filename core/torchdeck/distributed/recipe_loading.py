"""A recipe: its functions, loaded by name or path and checked. Does not import torch itself."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from torchdeck.contract.refusal import Refusal


class RecipeError(Refusal):
    """The recipe, its data or its settings cannot be trained; the message gives a remedy."""

    page = "recipes#your-own-model"


class RecipeImportError(RecipeError):
    """The recipe file raised during import; `__cause__` is its exception, from its own line on."""


BUILT_IN = {
    "byte-gpt": "torchdeck.recipes.byte_gpt",
    "bdh": "torchdeck.recipes.bdh",
    "digits": "torchdeck.recipes.digits",
    "byte-finetune": "torchdeck.recipes.byte_finetune",
    "image-folder": "torchdeck.recipes.image_folder",
    "hf-causal-lm": "torchdeck.recipes.hugging_face",
}
"""Name in run.toml → module."""

_REQUIRED = {
    "build_model": "build_model(options) returning a torch.nn.Module",
    "build_data": 'build_data(options, split) returning a data set, split being "train" or "heldout"',
    "loss": "loss(model, batch) returning the mean loss, or (mean loss, number of tokens), or "
    "(mean loss, number of tokens, {name: mean} of further metrics)",
}
_OPTIONAL = ("blocks", "build_optimizer", "callbacks", "collate", "data_options", "fingerprint", "init_names")


@dataclass(frozen=True)
class Recipe:
    """Functions of a recipe; the first three are required, the others optional."""

    name: str
    build_model: Callable[[dict[str, Any]], Any]
    """[model] → torch.nn.Module."""
    build_data: Callable[[dict[str, Any], str], Any]
    """([data], "train" | "heldout") → map-style data set, or None if there is no validation data."""
    loss: Callable[[Any, Any], Any]
    """(model, batch) → mean loss of the microbatch; or that and the number of tokens it is the mean of; or
    these and further means over the same by name.
    """
    blocks: Callable[[Any], Iterable[Any]] | None = None
    """Function from the model to the modules that FSDP gathers as one unit each."""
    collate: Callable[[list[Any]], Any] | None = None
    """Function from samples to a batch. Default: torch's default_collate. With a parameter `layout=None` it
    receives the microbatch's layout from a batch plan (`torchdeck.data.step_order.Layout`).
    """
    data_options: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None = None
    """([model], [data]) → options of build_data, if data depends on the model. Default: [data]."""
    build_optimizer: Callable[[Any], Any] | None = None
    """Model → torch.optim.Optimizer over its parameters. Default: from [training]."""
    callbacks: Callable[[Any], Iterable[Any]] | None = None
    """`RecipeSettings` → objects of classes derived from `torchdeck.distributed.Callback`; called on every
    rank.
    """
    fingerprint: Callable[[dict[str, Any]], Any] | None = None
    """Options of build_data → a text that differs if the training data does; stored in checkpoints."""

    init_names: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    """Names of the tensors in `model.init_from` → a map like `model.init_names`, for sources whose names
    differ and are known; empty for others.
    """

    def options_of_data(self, model: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for `build_data`."""
        if self.data_options is None:
            return dict(data)
        return self.data_options(dict(model), dict(data))


def load_recipe(recipe: str) -> Recipe:
    """Return the recipe of a built-in name or of a Python file; the file's code is executed.

    Raises:
        RecipeError: there is no such recipe or file, its import fails, or a function is missing.
    """
    if recipe in BUILT_IN:
        module = importlib.import_module(BUILT_IN[recipe])
    elif recipe.endswith(".py"):
        module = _import_file(Path(recipe))
    else:
        known = ", ".join(sorted(BUILT_IN))
        raise RecipeError(f'there is no recipe "{recipe}": use one of {known}, or the path of a .py file')
    for name, right in _REQUIRED.items():
        if not callable(getattr(module, name, None)):
            raise RecipeError(f"recipe {recipe} has no function {name}: define {right}")
    functions: dict[str, Any] = {name: getattr(module, name) for name in _REQUIRED}
    for name in _OPTIONAL:
        function = getattr(module, name, None)
        if function is not None and not callable(function):
            raise RecipeError(f"{name} of recipe {recipe} is {type(function).__name__}, not a function")
        functions[name] = function
    return Recipe(name=recipe, **functions)


def _import_file(path: Path) -> ModuleType:
    """Import `path` as a module, with its folder first on sys.path as for `python path`."""
    if not path.is_file():
        raise RecipeError(f"recipe file {path} does not exist: check the path of the recipe")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # a unique name: a recipe named random.py must not shadow the standard module
    name = f"torchdeck_recipe_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"recipe file {path} cannot be imported as Python: name it like model.py")
    module = importlib.util.module_from_spec(spec)
    # data-loader workers and pickled samples look up their classes by module name
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        error.with_traceback(_own_part(error.__traceback__, path))
        sentence = f"recipe file {path} fails to import: {type(error).__name__}: {error}"
        raise RecipeImportError(sentence) from error
    return module


def _own_part(trace: TracebackType | None, path: Path) -> TracebackType | None:
    """Return the traceback without the frames of the import that led to `path`, which do not help its
    author.
    """
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    return trace
