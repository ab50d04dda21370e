"""Requests all outputs of a batch from Thumbor over eight kept connections, and writes them.

It has the commands of the producers of the queues: `load FILE`, `go`.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from queue import Empty, SimpleQueue
from typing import Any

CONNECTIONS = 8


def filters(url: str, encoding: list[Any], alpha: bool) -> str:
    """The filters of a request: none if the format stays JPEG, and has the quality of the configuration."""
    form, quality, _ = encoding
    if form == "jpeg" and url.endswith(".jpg"):
        return ""
    wanted = [f"format({form})"] + ([f"quality({quality})"] if quality else [])
    if alpha and form == "jpeg":
        wanted.append("background_color(ffffff)")
    return f"filters:{':'.join(wanted)}/"


def request(connection: http.client.HTTPConnection, options: str, url: str, path: str, size: int) -> None:
    connection.request("GET", f"/unsafe/fit-in/{size}x{size}/{options}{url}")
    response = connection.getresponse()
    data = response.read()
    if response.status != 200:
        raise RuntimeError(f"{url}: thumbor answered {response.status}")
    with open(path, "wb", buffering=0) as file:
        file.write(data)


def work(port: int, waiting: SimpleQueue[tuple[str, str, str, int]]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        try:
            options, url, path, size = waiting.get_nowait()
        except Empty:
            connection.close()
            return
        try:
            request(connection, options, url, path, size)
        except Exception as error:
            # The output is missing later, and the log has the reason.
            print(f"{url}: {error}", file=sys.stderr, flush=True)
            connection.close()


def main(port: int) -> None:
    waiting: SimpleQueue[tuple[str, str, str, int]] = SimpleQueue()
    for line in sys.stdin:
        command, _, path = line.strip().partition(" ")
        if command == "load":
            with open(path) as file:
                batch = json.load(file)
            for job in batch["jobs"]:
                options = filters(job["url"], batch["encoding"], job["alpha"])
                for output, size in job["outputs"]:
                    waiting.put((options, job["url"], output, size))
            print("loaded", flush=True)
        elif command == "go":
            threads = [threading.Thread(target=work, args=(port, waiting)) for _ in range(CONNECTIONS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            print("submitted", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
