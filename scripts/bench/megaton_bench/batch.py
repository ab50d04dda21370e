"""A batch: images, their URLs, and the files of the outputs. Every contestant gets the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .cases import JPEG, Encoding


@dataclass(frozen=True)
class Photo:
    """An image of the origin; width and height as shown, after EXIF's orientation."""

    path: Path
    width: int
    height: int
    #: True if it has transparent pixels.
    alpha: bool = False

    def fitted(self, box: int) -> tuple[float, float]:
        """Its exact size within a square box, not enlarged and not rounded."""
        scale = min(1.0, box / self.width, box / self.height)
        return self.width * scale, self.height * scale


@dataclass(frozen=True)
class Job:
    """One URL to fetch; its outputs are named after its index."""

    index: int
    photo: Photo
    url: str


@dataclass(frozen=True)
class Batch:
    """Jobs, the sizes of the outputs of each, the directory for the outputs, and their format."""

    jobs: tuple[Job, ...]
    sizes: tuple[int, ...]
    outputs: Path
    encoding: Encoding = JPEG

    def output(self, job: Job, size: int) -> Path:
        """Path of a rendition, for contestants that accept a path."""
        return self.outputs / f"{job.index:06d}-{size}.{self.encoding.extension}"

    def all_outputs(self) -> Iterator[tuple[Job, int, Path]]:
        """All outputs in the order of their jobs."""
        for job in self.jobs:
            for size in self.sizes:
                yield job, size, self.output(job, size)


def make_batch(
    photos: list[Photo],
    count: int,
    sizes: tuple[int, ...],
    outputs: Path,
    url: Callable[[Photo, str], str],
    prefix: str,
    distinct: int | None = None,
    encoding: Encoding = JPEG,
) -> Batch:
    """A batch of `count` jobs over the photos in turn.

    Every job has a URL of its own, unless `distinct` limits their number; otherwise coalescing would be measured
    instead of the pipeline.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    jobs = []
    for index in range(count):
        number = index % distinct if distinct else index
        photo = photos[number % len(photos)]
        jobs.append(Job(index, photo, url(photo, f"{prefix}{number}")))
    return Batch(tuple(jobs), sizes, outputs, encoding)
