"""mkdocs hook: fills the generated parts of the documentation, and lists the decision records.

A page marks the place with `<!-- generated: NAME -->`. Nothing generated is kept in the repository, so no
part can be out of date; on a page that is read without mkdocs the mark is an invisible comment.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

from torchdeck import data, distributed
from torchdeck.cli.main import COMMANDS, run_parser
from torchdeck.config.documentation import reference
from torchdeck.runs.failures.chapter import chapter

_MARK = re.compile(r"^<!-- generated: (.+?) -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add docs/decisions/*.md to the navigation, the index first."""
    folder = Path(config.docs_dir, "decisions")
    records = sorted(folder.glob("*.md"), key=lambda path: (path.name != "index.md", path.name))
    if records and config.nav is not None:
        config.nav.append({"Decisions": [f"decisions/{record.name}" for record in records]})
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace each mark by what it names."""
    return _MARK.sub(_generated, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the theme's source maps, a third of the site: only its developers need them."""
    for path in Path(config.site_dir).rglob("*.map"):
        path.unlink()


def _generated(mark: re.Match[str]) -> str:
    if mark[1] not in GENERATED:
        raise PluginError(f"no generated part is called {mark[1]}; there are {', '.join(GENERATED)}")
    return GENERATED[mark[1]]()


def keys() -> str:
    """Every key of a run file, without the heading that `torchdeck schema --docs` prints."""
    return reference().partition("\n\n")[2]


def commands() -> str:
    """Every command with its usage and options."""
    texts = [_command(run_parser(), "torchdeck")]
    for name, command in COMMANDS.items():
        root = argparse.ArgumentParser(prog="torchdeck")
        import_module(command.module).add_parser(root.add_subparsers())
        texts += _commands(_children(root)[name])
    return "\n".join(texts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield _command(parser, parser.prog)
    for child in _children(parser).values():
        yield from _commands(child)


def _children(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            found.update(action.choices)
    return found


def _command(parser: argparse.ArgumentParser, name: str) -> str:
    level = "##" if len(name.split()) < 3 else "###"
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    rows = [
        (_spelling(action), (action.help or "") % {**vars(action), "prog": parser.prog})
        for action in parser._actions  # noqa: SLF001 - argparse has no public way to list them
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001
        and action.help != argparse.SUPPRESS
    ]
    table = [f"| `{_cell(spelling)}` | {_cell(meaning)} |" for spelling, meaning in rows]
    return "\n".join(
        [
            f"{level} {name}",
            "",
            parser.description or "",
            "",
            f"```text\n{usage}\n```",
            "",
            *(["| argument | meaning |", "|---|---|", *table, ""] if table else []),
        ]
    )


def _spelling(action: argparse.Action) -> str:
    shown = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    value = shown if isinstance(shown, str) else " ".join(shown)
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def names_of(homes: Mapping[str, str]) -> str:
    """A mkdocstrings directive for each public name, classes first."""
    ordered = sorted(homes, key=lambda name: (not name[0].isupper(), name.lower()))
    return "\n\n".join(f"::: {homes[name]}.{name}" for name in ordered)


def own_names() -> str:
    """`torchdeck.log`, `torchdeck.launch`, and the handle of a run that the latter returns."""
    return names_of(
        {
            "log": "torchdeck.telemetry.run_log",
            "launch": "torchdeck",
            "Run": "torchdeck.use_cases.api",
            **dict.fromkeys(("Image", "Text", "Histogram", "Table"), "torchdeck.telemetry.media.values"),
        }
    )


def distributed_names() -> str:
    """The public names of torchdeck.distributed that are not those of torchdeck.data."""
    own = {name: home for name, home in distributed.HOMES.items() if data.HOMES.get(name) != home}
    return names_of(own)


def known_failures() -> str:
    """The chapter that `torchdeck runs show` quotes from."""
    return "\n".join(f"### {advice.title}\n\n{advice.text}\n" for advice in chapter())


GENERATED: Mapping[str, Callable[[], str]] = {
    "keys of run.toml": keys,
    "commands": commands,
    "names of torchdeck": own_names,
    "names of torchdeck.distributed": distributed_names,
    "names of torchdeck.data": lambda: names_of(data.HOMES),
    "known failures": known_failures,
}
"""Mark → its text."""
