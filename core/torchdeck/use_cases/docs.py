"""Documentation that is installed with Torchdeck: finding a page, and serving it on 127.0.0.1."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from torchdeck.config.spelling import nearest
from torchdeck.contract.refusal import Refusal

INDEX = "index"


class DocsError(Refusal):
    """The documentation is not there, or has no such page."""

    is_usage = True

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.page = ""  # no page can be opened


class DocsServer:
    """Server of a folder of built pages; it starts with the first address and needs no network.

    Args:
        site: folder of the built pages; default: the installed one.
    """

    def __init__(self, site: Path | None = None) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._server: ThreadingTCPServer | None = None

    def address(self, wanted: str = INDEX) -> str:
        """Return the address of a page, such as `trouble/hangs` or `checkpoints#resume`.

        Raises:
            DocsError: the documentation is not built, or has no such page.
        """
        site = self._site or installed_site()
        if not (site / f"{INDEX}.html").is_file():
            raise DocsError(
                f"the documentation is not built: {site} does not exist",
                fix="in a checkout, build it with `pip install -c packaging/constraints.txt -e '.[docs]'` "
                "and `mkdocs build`, or read docs/index.md",
            )
        page = find_page(site, wanted)
        if page is None:
            names = pages(site)
            guess = next(iter(nearest(_name(wanted), names)), None)
            fix = f"did you mean {guess}?" if guess else f"pages: {', '.join(names)}"
            raise DocsError(f"there is no page {wanted}", fix=fix)
        with self._lock:
            if self._server is None:
                self._server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
                threading.Thread(target=self._server.serve_forever, name="docs-server", daemon=True).start()
            return f"http://127.0.0.1:{self._server.server_address[1]}/{page}"

    def close(self) -> None:
        """Stop serving."""
        with self._lock:
            if self._server is not None:
                self._server.shutdown()
                self._server.server_close()
                self._server = None


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


class _Server(ThreadingTCPServer):
    """Unlike http.server's own, it asks no name server for this machine's name."""

    daemon_threads = True
    block_on_close = False


class _Quiet(SimpleHTTPRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """Nothing."""
