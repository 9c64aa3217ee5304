"""`torchdeck docs`: the documentation that is installed with Torchdeck, in the browser."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from torchdeck.cli.exit_codes import SUCCEEDED, USAGE
from torchdeck.config.spelling import nearest

INDEX = "index"


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "docs",
        help="open the documentation in the browser",
        description="Serves the installed documentation on 127.0.0.1 and opens it in the browser. "
        "It needs no network. Ctrl-C ends it.",
    )
    parser.add_argument(
        "page",
        metavar="PAGE",
        nargs="?",
        default=INDEX,
        help="the page to open, such as trouble/hangs or reference/run-toml#training",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Serve the documentation until Ctrl-C; 2 if it is not there or has no such page."""
    site = installed_site()
    if not (site / f"{INDEX}.html").is_file():
        print(
            f"torchdeck docs: the documentation is not built: {site} does not exist.\n"
            "In a checkout, build it with `pip install -c packaging/constraints.txt -e '.[docs]'` and "
            "`mkdocs build`, or read docs/index.md.",
            file=sys.stderr,
        )
        return USAGE
    page = find_page(site, args.page)
    if page is None:
        names = pages(site)
        guess = next(iter(nearest(_name(args.page), names)), None)
        advice = f"did you mean {guess}?" if guess else f"pages: {', '.join(names)}"
        print(f"torchdeck docs: there is no page {args.page}; {advice}", file=sys.stderr)
        return USAGE
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        address = f"http://127.0.0.1:{server.server_port}/{page}"
        serving = threading.Thread(target=server.serve_forever, name="docs-server", daemon=True)
        serving.start()
        print(f"The documentation is at {address} (Ctrl-C ends)", flush=True)
        try:
            if not args.no_browser:
                webbrowser.open(address)
            serving.join()
        except KeyboardInterrupt:
            print()
        finally:
            server.shutdown()
    return SUCCEEDED


def installed_site() -> Path:
    """Folder of the built pages; it does not exist in a checkout without a build."""
    import torchdeck_resources

    return Path(torchdeck_resources.__file__).parent / "site"


def pages(site: Path) -> list[str]:
    """Names of all pages, such as `trouble/hangs`."""
    found = (path for path in site.rglob("*.html") if path.name != "404.html")
    return sorted(str(path.relative_to(site).with_suffix("")) for path in found)


def find_page(site: Path, wanted: str) -> str | None:
    """Path of a page below `site`, its anchor included; None if there is no such page.

    Args:
        site: folder of the built pages.
        wanted: `trouble/hangs` or `docs/trouble/hangs.md`; `hangs` is enough if it names one page only.
    """
    name, anchor = _name(wanted), wanted.partition("#")[2]
    names = pages(site)
    matches = [name] if name in names else [each for each in names if each.endswith(f"/{name}")]
    return f"{matches[0]}.html{'#' if anchor else ''}{anchor}" if len(matches) == 1 else None


def _name(wanted: str) -> str:
    path = wanted.partition("#")[0].strip("/").removeprefix("docs/")
    return path.removesuffix(".md").removesuffix(".html") or INDEX


class _Quiet(SimpleHTTPRequestHandler):
    """Logs no requests: the terminal shows the address alone."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """Nothing."""
