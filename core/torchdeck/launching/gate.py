"""The single gate for everything that a run file executes before its ranks start.

That is its recipe, modules the recipe may import or load, and the Python that it names: a preview, a plan and
a check run them as a launch does. A launch with `run.environment` also runs build code that the project
names. Each needs the user's approval once; code that others can write never passes.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.refusal import Refusal
from torchdeck.plan.code_paths import is_copied
from torchdeck.trust.trust_list import TrustError, TrustList
from torchdeck.trust.trusted_entry import Held
from torchdeck.trust.writers import Writers, other_writers, other_writers_below


class NotTrustedError(Refusal):
    """Something that may not run would be executed; it is in `held`."""

    page = TrustError.page

    def __init__(self, held: Sequence[Held]) -> None:
        super().__init__("; ".join(map(str, held)))
        self.held = tuple(held)

    def parts(self) -> tuple[Refusal, ...]:
        return tuple(TrustError(each.what, fix=each.fix) for each in self.held)


_BUILDS = "uv would run the build code that the project names, and its folder"
Below = Callable[[Path], Writers | None]
"""Finds code below a folder that others can write, as `other_writers_below` does."""


class Executed(NamedTuple):
    """A file or folder whose content determines what is executed."""

    path: Path
    folder: Path
    """The folder that must be trusted for `path` to be trusted."""
    why: str
    """A clause that ends where the folder's name follows."""
    advice: str = "read what is in it, then"
    """Advice before it is trusted, as the beginning of a clause."""


class Gate:
    """Decides what may run. Reads the trusted folders at every query; thread-safe.

    Args:
        home: TORCHDECK_HOME, which records what is trusted.
    """

    def __init__(self, home: Path) -> None:
        self._trusted = TrustList(home)

    def held(self, config: RunConfig, files: Sequence[Path] = ()) -> tuple[Held, ...]:
        """Return the parts of `config` that would be executed before its ranks start and may not be; each
        folder once.

        Args:
            config: its paths are absolute.
            files: files it was read from, `LoadedConfig.files`; empty if the user's own code made it.
        """
        parts = (*recipe_parts(config, files), interpreter_part(config.run.interpreter))
        return self._held((*parts, environment_part(config), *alert_parts(config, files)))

    def held_alerts(self, config: RunConfig, files: Sequence[Path]) -> tuple[Held, ...]:
        """Return the run files whose alerts may not be sent, with the arguments of `held`."""
        return self._held(alert_parts(config, files))

    def held_interpreter(self, path: str | None) -> Held | None:
        """Return why the Python at `path` must not be started, not even to print its version; None if it may
        be.
        """
        part = interpreter_part(path)
        return None if part is None else self._look(part)

    def admitted_interpreter(self, path: str) -> str | None:
        """Return the very Python that was checked, see `real_interpreter`; None if it may not be started."""
        real = real_interpreter(path)
        return None if self.held_interpreter(path) or self.held_interpreter(real) else real

    def held_again(self, plan: LaunchPlan) -> tuple[Held, ...]:
        """Return what a resumed run would execute on this machine, and may not (any more).

        That is its Python, and a recipe that was not copied for the run.
        """
        here = [node for node in plan.nodes if node.name == LOCALHOST]
        parts: list[Executed | None] = [interpreter_part(node.interpreter) for node in here]
        if here and plan.kind == "recipe" and not is_copied(plan.code, plan.target):
            parts += _code_parts(plan.target)
        for node in here:
            if node.environment is not None and not plan.code.folder:
                folder = Path(fill(node.working_dir, {}))
                parts.append(Executed(folder, folder.resolve(), _BUILDS))
        return self._held(parts)

    def admitted(self, config: RunConfig, files: Sequence[Path] = ()) -> RunConfig:
        """Return `config` with the very paths that were checked, without symbolic links: the ones to execute.

        Raises:
            NotTrustedError: a part of it may not run.
        """
        # resolved first: redirecting a link from now on has no effect
        real = resolved(config)
        held = self.held(config, files) or (self.held(real, files) if real != config else ())
        if held:
            raise NotTrustedError(held)
        return real

    def trust(self, config: RunConfig, files: Sequence[Path] = ()) -> None:
        """Trust everything in `config` that is executed before its ranks start. Raises TrustError."""
        for held in self.held(config, files):
            if not held.can_be_trusted:
                raise TrustError(held.what, fix=held.fix)
            self.trust_folder(held.folder)

    def trust_folder(self, folder: Path) -> None:
        """Trust the code in `folder` from now on. Raises TrustError."""
        self._trusted.add(folder)

    def _held(self, parts: Iterable[Executed | None]) -> tuple[Held, ...]:
        found: dict[Path, Held] = {}
        below = cache(other_writers_below)  # for a folder that occurs more than once
        for part in parts:
            if (
                part is not None
                and part.folder not in found
                and (held := self._look(part, below)) is not None
            ):
                found[part.folder] = held
        return tuple(found.values())

    def _look(self, part: Executed, below: Below = other_writers_below) -> Held | None:
        try:
            standing = self._trusted.standing(part.folder, part.path)
            never = standing.never or _writers(part, below)
        except TrustError as error:
            return Held(part.folder, error.finding, error.fix, can_be_trusted=False)
        if never is not None:
            what = f"{part.why} {part.folder} cannot be trusted: {never.what}"
            return Held(part.folder, what, never.fix, can_be_trusted=False)
        if standing.trusted:
            return None
        again = f"; {standing.changed}" if standing.changed else ""
        what = f"{part.why} {part.folder} is not trusted yet{again}"
        fix = f"{part.advice} start again with --trust, or `torchdeck trust add {part.folder}`"
        return Held(part.folder, what, fix)


def recipe_parts(config: RunConfig, files: Sequence[Path] = ()) -> Iterator[Executed]:
    """Yield everything that takes effect in a process that runs the recipe file of `config`.

    That is the recipe and its folder, the folder that ranks start in, as Python imports from it first, and
    the folders of the run files if they set variables. Some variables (PYTHONPATH, LD_PRELOAD) bring in other
    code. Yields nothing for a built-in recipe, in whose process nothing of that takes effect, for a script or
    a module, which only a launch runs, and for a missing file.
    """
    parts = [] if config.run.recipe is None else _code_parts(config.run.recipe)
    if not parts:
        return
    yield from parts
    start = Path(config.run.working_dir or Path.cwd())
    if start.is_dir():  # nothing can be imported from a missing folder
        yield Executed(start, start.resolve(), "the recipe starts in, and can import from,")
    for file in files if config.run.env else ():
        if file.parent.is_dir():
            why = f"{file.name} sets environment variables, which can load code, and its folder"
            yield Executed(file if file.is_file() else file.parent, file.parent.resolve(), why)


def _code_parts(recipe: str) -> list[Executed]:
    """Return the file of a recipe by its name and by its real path; empty for a built-in one."""
    if recipe in BUILTIN_RECIPES or not Path(recipe).is_file():
        return []
    named, real = Path(recipe), Path(recipe).resolve()
    why = f"{named.name} is code, and its folder"
    return [Executed(named, named.parent.resolve(), why), Executed(real, real.parent, why)]


def interpreter_part(path: str | None) -> Executed | None:
    """Return the Python at `path`, unless it is the user's own: the one running Torchdeck, or in a folder of
    PATH.

    For a virtual environment, all of it is included: its packages run with it.

    Args:
        path: absolute, or a name that is looked up on PATH.
    """
    found = None if path is None else path if os.sep in path else shutil.which(path)
    if found is None or not Path(found).is_file():
        return None
    file = _with_real_folder(Path(found).absolute())
    own = {Path(sys.executable).parent, *(Path(name) for name in os.get_exec_path() if name.startswith("/"))}
    if file.parent in {folder.resolve() for folder in own}:
        return None
    folder = file.parent.parent if (file.parent.parent / "pyvenv.cfg").is_file() else file.parent
    why = f"the run's Python, {file}, is started to look at its packages, and its folder"
    return Executed(file, folder, why, "if you made this environment, or trust who did,")


def environment_part(config: RunConfig) -> Executed | None:
    """Return the working directory if uv makes an environment from its files, which runs their build
    backends.
    """
    start = Path(config.run.working_dir or Path.cwd())
    if config.run.environment is None or not start.is_dir():
        return None
    return Executed(start, start.resolve(), _BUILDS)


def alert_parts(config: RunConfig, files: Sequence[Path]) -> Iterator[Executed]:
    """Yield the folders of the run files if they send the value of an environment variable to a host that
    they name: any variable, to anyone.
    """
    for file in files if config.alerts.sends_secrets else ():
        why = f"{file.name} sends {', '.join(config.alerts.secrets)} to an address in it, and its folder"
        yield Executed(file, file.parent.resolve(), why)


def resolved(config: RunConfig) -> RunConfig:
    """Return `config` with its recipe, its working directory and the folder of its Python without symbolic
    links.

    The Python itself may be a link: in a virtual environment it is one, and the link's location matters.
    """
    run, changed = config.run, {}
    if run.recipe is not None and run.recipe not in BUILTIN_RECIPES and Path(run.recipe).is_file():
        changed["recipe"] = str(Path(run.recipe).resolve())
        changed["working_dir"] = str(Path(run.working_dir or Path.cwd()).resolve())
    if run.interpreter is not None:
        changed["interpreter"] = real_interpreter(run.interpreter)
    return config.model_copy(update={"run": run.model_copy(update=changed)}) if changed else config


def real_interpreter(path: str) -> str:
    """Return the Python at `path`, in a folder without symbolic links; a name to look up on PATH stays a
    name.
    """
    is_own = path == sys.executable or os.sep not in path
    return path if is_own else str(_with_real_folder(Path(path)))


def _with_real_folder(file: Path) -> Path:
    return file.parent.resolve() / file.name


def _writers(part: Executed, below: Below) -> Writers | None:
    """Return other users who could change the file, or code in its folder."""
    try:
        if found := other_writers(part.path) or below(part.folder):
            return found
        # the intermediate names are not module names, so the check below the folder skips them
        base = part.folder.parent if part.folder.name == "bin" else part.folder
        for site in sorted(base.glob("lib*/python*/site-packages")):
            if found := other_writers(site) or below(site):
                return found
    except OSError:
        return None
    return None
