"""An origin in a process of its own: an HTTP server whose paths say how it answers.

Usage: python3 -m megaton_pace.origin PORT

- /GROUP/MILLISECONDS/NAME answers with a small image of its own after that time.
- A group that begins with "photo" answers with an image of 700 KB, one that begins with "uncached" forbids caches to
  store the response.
- /_stats answers with the requests, the complete answers and the milliseconds of all waiting, for each group.
"""

import asyncio
import json
import os
import struct
import sys
import time
import zlib

SIDE = 8
PHOTO_SIDE = 490


def png(side, seed):
    """An image of random pixels. All images differ."""
    rows = b"".join(b"\0" + os.urandom(side * 3) for _ in range(side)) if side > SIDE else b""
    if not rows:
        color = bytes((seed % 256, seed // 256 % 256, seed // 65536 % 256))
        rows = (b"\0" + color * side) * side

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


class Origin:
    def __init__(self):
        self.groups = {}
        self.photo = png(PHOTO_SIDE, 0)

    def stats(self):
        return json.dumps({"time": time.monotonic(), "groups": self.groups}).encode()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode("ascii", "replace")
                body, fields = await self.answer(path)
                status = b"200 OK" if body else b"404 Not Found"
                length = b"Content-Length: %d\r\n" % len(body)
                writer.write(b"HTTP/1.1 " + status + b"\r\n" + length + fields + b"\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path):
        """The body, and header fields."""
        if path == "/_stats":
            return self.stats(), b"Content-Type: application/json\r\n"
        parts = path.split("/")
        if len(parts) < 4 or not parts[2].isdigit():
            return b"", b""
        group = self.groups.setdefault(parts[1], {"requests": 0, "done": 0, "waited": 0})
        group["requests"] += 1
        await asyncio.sleep(int(parts[2]) / 1000)
        group["done"] += 1
        group["waited"] += int(parts[2])
        # A path has the same image each time. Bytes after the end of an image make it another one.
        is_photo = parts[1].startswith("photo")
        body = self.photo + path.encode() if is_photo else png(SIDE, zlib.crc32(path.encode()))
        caching = b"no-store" if parts[1].startswith("uncached") else b"max-age=3600"
        return body, b"Content-Type: image/png\r\nCache-Control: " + caching + b"\r\n"


async def main(port):
    server = await asyncio.start_server(Origin().serve, "0.0.0.0", port, backlog=2048)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
