"""Settings of a run, and of the work of all contestants."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .cases import PLANS

#: The images of the case `photos`: longest side, quality, and fewest and most megapixels; larger ones are scaled down.
PHOTO_SIZE = 4000
PHOTO_QUALITY = 88
PHOTO_MEGAPIXELS = (2.0, 10.0)
#: The longer side of the images of the cases `web`, `png`, `webp` and `mixed`, and the quality of JPEGs and WebPs.
WEB_SIZE = 800
WEB_QUALITY = 85
#: The longer side and the quality of the images of the case `2k`.
TWO_K_SIZE = 2000
TWO_K_QUALITY = 88
#: The case `repeat`: number of jobs, and of URLs.
REPEAT_JOBS = 10_000
REPEAT_URLS = 100
#: Jobs of the case `again`.
AGAIN_JOBS = (1100, 1000)


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
    def newest(self) -> Path:
        """The environment of the peers with the newest libvips."""
        return self.build / "newest"

    @property
    def cores(self) -> int:
        """Processes or threads of every contestant: the processors this process may use."""
        return len(os.sched_getaffinity(0))

    def jobs(self, case: str, pictures: int) -> int:
        """Number of jobs of a batch: some seconds of work, and each image equally often."""
        usual, quick = (PLANS[case].jobs, PLANS[case].quick_jobs) if case in PLANS else AGAIN_JOBS
        wanted = quick if self.quick else usual
        wanted = self.batch or wanted
        return max(1, round(wanted / pictures)) * pictures
