"""Settings of a run, and of the work of all contestants."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: The box that every output fits in, in pixels, and its quality: the defaults of `megaton run`.
SIZE = 256
QUALITY = 80
#: The renditions of the case `four`.
FOUR_SIZES = (1280, 640, 320, 128)
#: The images of the case `photos`: longest side, quality, and fewest and most megapixels; larger ones are scaled down.
PHOTO_SIZE = 4000
PHOTO_QUALITY = 88
PHOTO_MEGAPIXELS = (2.0, 10.0)
#: The longer side and the quality of the images of the case `web`.
WEB_SIZE = 800
WEB_QUALITY = 85
#: The case `repeat`: number of jobs, and of URLs.
REPEAT_JOBS = 10_000
REPEAT_URLS = 100

CASES = ("photos", "shipped", "web", "four", "again", "repeat")


@dataclass(frozen=True)
class Settings:
    """The options of the command line."""

    program: Path
    build: Path
    photos: Path | None
    rounds: int
    batch: int | None
    quick: bool
    cases: tuple[str, ...]
    only: tuple[str, ...]
    json: Path | None
    chart: Path | None

    @property
    def benchmarks(self) -> list[str]:
        """The command of Megaton's benchmarks: `megaton-bench` beside the program; before 0.2.0 `megaton bench`."""
        beside = self.program.with_name("megaton-bench")
        return [str(beside)] if beside.exists() else [str(self.program), "bench"]

    @property
    def cores(self) -> int:
        """Processes or threads of every contestant: the processors this process may use."""
        return len(os.sched_getaffinity(0))

    def jobs(self, case: str, pictures: int) -> int:
        """Number of jobs of a batch: some seconds of work, and each image equally often."""
        wanted = {"photos": 680, "shipped": 400, "web": 2300, "four": 170, "again": 1100}[case]
        if self.quick:
            wanted = {"photos": 96, "shipped": 96, "web": 960, "four": 48, "again": 1000}[case]
        wanted = self.batch or wanted
        return max(1, round(wanted / pictures)) * pictures
