"""Settings of the world, and of the work of both programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

LINES = 10_000
HOSTS = 200
ROUNDS = 3
#: Longer side and quality of the images, as on the pages of shops.
IMAGE_SIZE = 1600
IMAGE_QUALITY = 85
#: The name of their set; part of their URLs.
SET = "world"
#: Requests at a time to one host: the default of `megaton run`.
HOST_CONCURRENCY = 64
#: Requests that `megaton run` may send at once to a host with a rate, after an idle time.
HOST_BURST = 8
#: Threads of each process of img2dataset: its default, and the fastest of 32, 64, 128 and 256.
THREADS = 256
#: Seconds without an answer after which img2dataset gives up a request: its default.
PEER_TIMEOUT = 10
#: Time of Megaton divided by that of img2dataset.
GOAL = 1 / 3


@dataclass(frozen=True)
class WorldSettings:
    """The options of the command line."""

    program: Path
    build: Path
    photos: Path | None
    lines: int
    hosts: int
    rounds: int
    only: tuple[str, ...]
    host_concurrency: int
    host_rate: float | None
    threads: int
    options: tuple[str, ...]
    json: Path | None
    keep: Path | None

    @property
    def cores(self) -> int:
        """Processes of both programs: the processors this process may use."""
        return len(os.sched_getaffinity(0))
