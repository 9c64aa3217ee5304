"""Hashes of all packages that a release installs: `python packaging/hashes.py [--check]`.

Without --check it asks pip, and so the registry that pip is set up for, for the wheels of each pin in
constraints.txt that Torchdeck or one of its extras needs, and writes packaging/hashes/NAME.txt for
`pip install --require-hashes -r`. It downloads nothing. With --check it asks no one: the files must name what
the extras need in this environment, at the pinned versions, each with a hash. Exit code 1 if they do not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
FOLDER = HERE / "hashes"
FILES: Mapping[str, tuple[str, ...]] = {
    "core": (),
    "gui": ("gui",),
    "train": ("train",),
    "more": ("keyring", "gpu", "digits", "vision", "export", "mcp"),
}
"""File → the extras that it is for; each but the first comes on top of it."""
NOTES = {
    "train": (
        "# It is for torch's build for CPUs: the CUDA libraries that other builds bring along are not in it.",
    )
}
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
MANYLINUX = ("1", "2010", "2014", *(f"_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 39)))
ALONE = frozenset({"nvidia-ml-py"})
"""Need nothing themselves, and may be absent here: NVML's binding is of no use without a GPU."""
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pins() -> dict[str, str]:
    """Package → version, as constraints.txt has them."""
    found = _PINNED.findall((HERE / "constraints.txt").read_text(encoding="utf-8"))
    return {canonicalize_name(name): version for name, version in found}


def needed(extras: Iterable[str]) -> set[str]:
    """All packages that Torchdeck with `extras` installs on Linux, on any of the Pythons and machines.

    What only another Python than this one needs is left out if it is not installed here.

    Raises:
        SystemExit: one of them is not installed here, so that nothing is known of what it needs.
    """
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in texts]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or not _applies(requirement, extra):
            continue
        try:
            inner = distribution(name).requires or []
        except PackageNotFoundError:
            if name in ALONE:
                found.add(name)
            elif _applies_here(requirement, extra):
                raise SystemExit(f"{name} is not installed here: install every extra first") from None
            continue
        found.add(name)
        waiting += [(Requirement(text), wanted) for text in inner for wanted in ("", *requirement.extras)]
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    if requirement.marker is None:
        return True
    places = product(PYTHONS, MACHINES)
    return any(
        requirement.marker.evaluate(
            {
                "extra": extra,
                "python_version": python,
                "python_full_version": f"{python}.0",
                "platform_machine": machine,
            }
        )
        for python, machine in places
    )


def _applies_here(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def is_here(name: str) -> bool:
    """Whether the package is installed in this environment."""
    try:
        return bool(distribution(name).version)
    except PackageNotFoundError:
        return False


def files() -> dict[str, set[str]]:
    """File → its packages; what is in the first is in no other."""
    core = needed(())
    return {name: core if name == "core" else needed(extras) - core for name, extras in FILES.items()}


def hashes_of(packages: Mapping[str, str]) -> dict[str, set[str]]:
    """Package → SHA-256 of its wheel for every Python and machine that has one."""
    found: dict[str, set[str]] = {name: set() for name in packages}
    for python, machine in product(PYTHONS, MACHINES):
        print(f"asking for the wheels of Python {python} on {machine}", file=sys.stderr)
        # `==` takes a build of this index's own (torch's for CPUs), `===` the one without a local version
        for equals in ("==", "==="):
            for name, hash_ in _asked(packages, python, machine, equals):
                found[name].add(hash_)
    return found


def _asked(packages: Mapping[str, str], python: str, machine: str, equals: str) -> Iterator[tuple[str, str]]:
    wanted = [f"{name}{equals}{version}" for name, version in packages.items()]
    report = _report(wanted, python, machine)
    # pip says nothing of any if there is none of one, so then they are asked for one by one
    reports = [report] if report is not None else [_report([word], python, machine) for word in wanted]
    for item in (item for each in reports if each is not None for item in each["install"]):
        yield (
            canonicalize_name(item["metadata"]["name"]),
            item["download_info"]["archive_info"]["hashes"]["sha256"],
        )


def _report(wanted: list[str], python: str, machine: str) -> dict[str, Any] | None:
    """What pip would install; None if it finds no wheel of one of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        options = [f"--platform=manylinux{kind}_{machine}" for kind in MANYLINUX]
        asked = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pip",
                    "--disable-pip-version-check",
                    "install",
                    "--dry-run",
                    "--no-deps",
                ),
                *("--ignore-installed", "--only-binary=:all:", "--quiet", f"--report={path}"),
                *(f"--target={folder}/target", f"--python-version={python}", "--implementation=cp"),
                *options,
                *wanted,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode != 0:
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def text_of(name: str, packages: Mapping[str, str], hashes: Mapping[str, set[str]]) -> str:
    """A file of requirements."""
    extras = ", ".join(FILES[name])
    what = f"the extras {extras} (with core.txt)" if extras else "Torchdeck itself"
    lines = [
        f"# What {what} installs, by hash: Linux on {' and '.join(MACHINES)}, Python {', '.join(PYTHONS)}.",
        "# Made by packaging/hashes.py; `pip install --require-hashes -r` takes it.",
        *NOTES.get(name, ()),
    ]
    for package in sorted(packages):
        found = " \\\n".join(f"    --hash=sha256:{hash_}" for hash_ in sorted(hashes[package]))
        lines.append(f"{package}=={packages[package]} \\\n{found}")
    return "\n".join(lines) + "\n"


def write() -> int:
    """Ask for all hashes, and write the files."""
    pinned, wanted = pins(), files()
    unpinned = set().union(*wanted.values()) - pinned.keys()
    if unpinned:
        raise SystemExit(f"constraints.txt does not pin {', '.join(sorted(unpinned))}")
    packages = {name: pinned[name] for name in sorted(set().union(*wanted.values()))}
    hashes = hashes_of(packages)
    missing = [name for name, found in hashes.items() if not found]
    if missing:
        raise SystemExit(f"the registry has no wheel of {', '.join(missing)}")
    FOLDER.mkdir(exist_ok=True)
    for file, names in wanted.items():
        own = {name: packages[name] for name in names}
        (FOLDER / f"{file}.txt").write_text(text_of(file, own, hashes), encoding="utf-8")
    return 0


def faults() -> Iterator[str]:
    """What is wrong with the files."""
    pinned = pins()
    for file, names in files().items():
        try:
            text = (FOLDER / f"{file}.txt").read_text(encoding="utf-8")
        except OSError as error:
            yield f"{error.filename} cannot be read: {error.strerror}"
            continue
        parts = [
            part for part in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE) if not part.startswith("#")
        ]
        listed = {part.partition("==")[0]: part for part in parts}
        yield from (f"{file}.txt lacks {name}" for name in sorted(names - listed.keys()))
        # another Python than this one may need what is not installed here
        yield from (f"{file}.txt needs no {name}" for name in sorted(listed.keys() - names) if is_here(name))
        for name in sorted(names & listed.keys()):
            if not listed[name].startswith(f"{name}=={pinned.get(name)} "):
                yield f"{file}.txt has another version of {name} than constraints.txt"
            if not _HASH.search(listed[name]):
                yield f"{file}.txt has no hash of {name}"


def check() -> int:
    """Print what is wrong with the files; 1 if anything is."""
    found = list(faults())
    for fault in found:
        print(f"packaging/hashes: {fault}; `python packaging/hashes.py` makes them again", file=sys.stderr)
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="ask no one; only look whether the files fit")
    return check() if parser.parse_args().check else write()


if __name__ == "__main__":
    sys.exit(main())
