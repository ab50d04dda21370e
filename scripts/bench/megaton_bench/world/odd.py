"""The server of the odd hosts: `python -m megaton_bench.world.odd CONFIGURATION.json`.

One process for all of them; it writes a line for each request: start, end, host, status.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any, TextIO

from .hosts import HOPS, seconds

PIECES_A_SECOND = 10
BOMB_BYTES = 64 << 20
PAGE = b"<!DOCTYPE html><html><body><h1>This image is for members</h1></body></html>"
#: Time after which a host that never answers closes the connection, so that nothing waits without end.
MUTE_SECONDS = 300
#: Seconds within which a connection to a listener with a free place is made.
CONNECT_SECONDS = 0.2


class OddHosts:
    """All odd hosts of a world."""

    def __init__(self, configuration: dict[str, Any], log: TextIO) -> None:
        self.port: int = configuration["port"]
        self.root = Path(configuration["root"])
        self.kinds: dict[str, str] = configuration["kinds"]
        self.silent: list[str] = configuration["silent"]
        self.addresses: list[str] = configuration["addresses"]
        #: Healthy hosts, to which others redirect.
        self.healthy: list[str] = configuration["healthy"]
        self.log = log
        compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
        self.bomb = compressor.compress(bytes(BOMB_BYTES)) + compressor.flush()
        self._kept: list[socket.socket] = []

    async def run(self, ready: Path) -> None:
        for address in self.silent:
            self._fill(address)
        servers = [
            await asyncio.start_server(self._serve, address, self.port, backlog=1024) for address in self.addresses
        ]
        ready.touch()
        await asyncio.gather(*(server.serve_forever() for server in servers))

    def _fill(self, address: str) -> None:
        """A listener that accepts nothing, with connections until its queue is full: Linux then drops each SYN."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, self.port))
        listener.listen(0)
        self._kept.append(listener)
        for _ in range(8):
            filler = socket.socket()
            filler.settimeout(CONNECT_SECONDS)
            try:
                filler.connect((address, self.port))
            except TimeoutError:
                filler.close()
                return
            self._kept.append(filler)
        raise SystemExit(f"{address} still accepts connections")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request: no host of these keeps connections."""
        start, host, status = time.time(), "-", 0
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            start = time.time()
            path = head.split(" ", 2)[1]
            host = next(
                (line[5:].strip().partition(":")[0] for line in head.split("\r\n") if line.lower().startswith("host:")),
                "-",
            )
            status = await self._answer(self.kinds.get(host, "missing"), path, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has left
        finally:
            if host != "-":
                self.log.write(f"{start:.3f} {time.time():.3f} {host} {status}\n")
                self.log.flush()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, kind: str, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        parts = path.split("/")
        # /number/set/file, or /hop-n/number/set/file
        hop = int(parts.pop(1)[4:]) if parts[1].startswith("hop-") else 0
        number, rest = int(parts[1]), "/".join(parts[1:])
        if kind == "mute":
            await _pause(reader, MUTE_SECONDS)
            return 0
        if kind == "loop":
            return await self._send(writer, 302, b"", location=f"/hop-{(hop + 1) % 2}/{rest}")
        if kind == "hops" and hop < HOPS:
            return await self._send(writer, 302, b"", location=f"/hop-{hop + 1}/{rest}")
        if kind == "away":
            target = self.healthy[number % len(self.healthy)]
            return await self._send(writer, 302, b"", location=f"http://{target}:{self.port}/{rest}")
        if kind in ("html", "empty"):
            return await self._send(writer, 200, PAGE if kind == "html" else b"", kind="image/jpeg")
        if kind == "bomb":
            return await self._send(writer, 200, self.bomb, kind="image/jpeg", encoding="gzip")
        if kind == "missing":
            return await self._send(writer, 404, PAGE, kind="text/html")
        body = (self.root / parts[2] / parts[3]).read_bytes()
        wait = seconds(kind, number)
        if kind in ("late", "very-late"):
            await _pause(reader, wait)
        elif kind == "drip":
            return await self._send(writer, 200, body, over=wait)
        elif kind == "cut":
            body = body[: len(body) // 2]
        elif kind == "short":
            return await self._send(writer, 200, body[: len(body) // 2], length=len(body))
        return await self._send(writer, 200, body, kind="text/html" if kind == "mislabeled" else "image/jpeg")

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        body: bytes,
        kind: str = "image/jpeg",
        location: str | None = None,
        encoding: str | None = None,
        length: int | None = None,
        over: float = 0,
    ) -> int:
        """Sends an answer; with `over` its body in pieces over as many seconds."""
        head = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {length or len(body)}"]
        head += [f"Location: {location}"] if location else []
        head += [f"Content-Encoding: {encoding}"] if encoding else []
        writer.write("\r\n".join([*head, "Connection: close", "", ""]).encode())
        pieces = max(1, round(over * PIECES_A_SECOND))
        size = max(1, -(-len(body) // pieces))
        for begin in range(0, len(body), size):
            if over:
                await asyncio.sleep(over / pieces)
            writer.write(body[begin : begin + size])
            await writer.drain()
        return status


async def _pause(reader: asyncio.StreamReader, seconds: float) -> None:
    """Waits for this time, or raises an error as soon as the client leaves: its request ends then."""
    try:
        await asyncio.wait_for(reader.read(1), seconds)
    except TimeoutError:
        return
    raise ConnectionAbortedError


def main() -> None:
    configuration = json.loads(Path(sys.argv[1]).read_text())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with open(configuration["log"], "a") as log, contextlib.suppress(KeyboardInterrupt):
        asyncio.run(OddHosts(configuration, log).run(Path(configuration["ready"])))


if __name__ == "__main__":
    main()
