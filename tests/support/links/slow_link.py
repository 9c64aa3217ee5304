"""A slow or broken network link: a TCP proxy of so many bytes a second and so long a way; it can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

LIMIT = 20.0


class SlowLink:
    """Listens on this machine, from `with` to its end, and passes on what comes to and from `(host, port)`.

    All connections share the speed, each direction for itself, as on a line.

    Args:
        host: where it leads.
        port: where it leads.
        bytes_per_second: what it carries in each direction; None for all there is.
        delay: seconds that a byte is on its way, in each direction.
        listen: the address that it listens on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        bytes_per_second: float | None = None,
        delay: float = 0.0,
        listen: str = "127.0.0.1",
    ) -> None:
        self._to = (host, port)
        self._speed = bytes_per_second
        self._delay = delay
        self.address = listen
        self.port = 0
        """Where it listens."""
        self.carried = 0
        """Bytes passed on so far, both ways together."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slow link", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._free = [0.0, 0.0]
        """When each direction has sent what it was given, by the loop's clock."""
        self._flowing = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()

    def hold(self) -> None:
        """Let nothing through and keep connections: a cable that is pulled, or a host that is stalled."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def release(self) -> None:
        """Let all that has been held, and what comes, through."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def cut(self) -> None:
        """End all connections at once, and take no new ones."""
        self._call(self._cut())

    def heal(self) -> None:
        """Take connections again, on the same port."""
        self._call(self._listen())

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT)

    async def _listen(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._accept, self.address, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        await self._cut()
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(far_writer)
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer, 0)),
            asyncio.create_task(self._pump(far_reader, writer, 1)),
        ]
        self._pumps.update(pumps)
        try:
            await asyncio.gather(*pumps)
        finally:
            self._pumps.difference_update(pumps)
            self._open -= {writer, far_writer}
            for one in (writer, far_writer):
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: int) -> None:
        """Read at the link's speed, and send what was read when its way is over."""
        sent: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sender = asyncio.create_task(self._send(sent, writer))
        self._pumps.add(sender)
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(self._piece()):
                    sent.put_nowait((await self._passed(len(data), way) + self._delay, data))
            sent.put_nowait((self._loop.time() + self._delay, b""))
            await sender
        finally:
            sender.cancel()
            self._pumps.discard(sender)

    def _piece(self) -> int:
        """Bytes that take some 20 ms, so that the speed is even."""
        return 2**16 if self._speed is None else max(256, min(2**16, int(self._speed * 0.02)))

    async def _passed(self, size: int, way: int) -> float:
        """Wait until the line has taken `size` bytes more; the time when it has."""
        if self._speed is not None:
            self._free[way] = max(self._free[way], self._loop.time()) + size / self._speed
            await asyncio.sleep(self._free[way] - self._loop.time())
        return self._loop.time()

    async def _send(self, sent: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = await sent.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                await self._flowing.wait()
                if not data:
                    if writer.can_write_eof() and not writer.is_closing():
                        writer.write_eof()
                    return
                writer.write(data)
                self.carried += len(data)
                await writer.drain()


def through(link: SlowLink, entry: Callable[..., dict[str, Any]], host: int) -> dict[str, Any]:
    """The table of nodes.toml for a host behind the link; `entry` is `TestHosts.entry`."""
    return entry(host, address=link.address, port=link.port)
