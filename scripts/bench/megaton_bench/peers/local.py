"""Engines and libraries alone, the ceilings of the whole paths. All read local files."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from ..batch import Batch, Photo
from ..cases import Encoding
from ..errors import PeerFailed
from .base import Contestant, Mark, python_environment

#: Files that one vipsthumbnail gets: enough to make its start cheap, few enough to share the batch evenly.
FILES_EACH = 8
#: Seconds of an engine alone: several times through the set.
ALONE_SECONDS = 6
QUICK_ALONE_SECONDS = 3
#: Maximum number of images that `megaton-bench pipeline` reads.
PICTURES = 1000


class Vipsthumbnail(Contestant):
    """`xargs -P` with as many processes as there are processors, eight files each."""

    name = "vipsthumbnail"
    title = "vipsthumbnail, xargs, local files"
    is_whole_path = False

    def start(self, outputs: Path) -> None:
        if not shutil.which("vipsthumbnail"):
            raise PeerFailed("vipsthumbnail is missing: apt-get install libvips-tools")
        self._batches = 0

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        # It names outputs after inputs: links give each job a name of its own.
        links = self.home / f"vipsthumbnail-{self._batches}"
        links.mkdir()
        size = batch.sizes[0]
        for job in batch.jobs:
            (links / f"{job.index:06d}-{size}").symlink_to(job.photo.path)
        names = self.home / f"vipsthumbnail-{self._batches}.txt"
        names.write_text("".join(f"{links}/{job.index:06d}-{size}\0" for job in batch.jobs))
        arguments = ["xargs", "-0", "-a", str(names), "-P", str(self.cores), "-n", str(FILES_EACH)]
        arguments += ["vipsthumbnail", "--size", f"{size}x{size}>"]
        arguments += ["--output", f"{batch.outputs}/%s{batch.encoding.vips_suffix}"]
        mark = self.mark()
        child = self.spawn(f"run-{self._batches}", arguments, python_environment())
        if child.poll(wait=True) != 0:
            child.check()
        return mark


class BareLoop(Contestant):
    """A C loop over `vips_thumbnail_buffer` and the encoder, a thread for each processor.

    It reads its files before the measurement starts: no network, no queue, no cache. The ceiling of libvips.
    """

    name = "bare-loop"
    title = "bare libvips loop, files in memory"
    is_whole_path = False
    engine_of: str | None = "megaton-vips"

    def start(self, outputs: Path) -> None:
        self._batches = 0

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        jobs = self.home / f"bare-{self._batches}.txt"
        jobs.write_text(
            "".join(
                f"{job.photo.path}\t" + "\t".join(f"{size}\t{batch.output(job, size)}" for size in batch.sizes) + "\n"
                for job in batch.jobs
            )
        )
        encoding = batch.encoding
        arguments = [*self.program, str(self.cores), encoding.format]
        arguments += [str(-1 if value is None else value) for value in (encoding.quality, encoding.effort)]
        child = self.spawn(f"run-{self._batches}", [*arguments, str(jobs)], python_environment(), talks=True)
        child.ask("load", "loaded")
        mark = self.mark()
        child.ask("go", "done")
        return mark

    @property
    def program(self) -> list[str]:
        """The command; threads, format, quality, effort and the jobs follow."""
        return [str(self.stage.settings.build / "vips_loop")]


class BareLibrary(BareLoop):
    """A loop in Python over a library, a process for each processor, with files in memory."""

    library: str
    engine_of = None

    @property
    def program(self) -> list[str]:
        python = str(self.stage.settings.newest / "bin/python")
        return [python, "-m", "megaton_bench.peers.loop", self.library]


class BarePyvips(BareLibrary):
    """The task of the queues alone: the ceiling of the newest libvips."""

    name = "bare-pyvips"
    title = "bare pyvips loop, newest libvips"
    library = "pyvips"


class BarePillow(BareLibrary):
    """The newest Pillow, with `draft`."""

    name = "bare-pillow"
    title = "bare Pillow loop, with draft"
    library = "pillow"


class BareOpenCV(BareLibrary):
    """The newest OpenCV, with shrink on load; it ignores alpha, and knows no effort of AVIF as others do."""

    name = "bare-opencv"
    title = "bare OpenCV loop"
    library = "opencv"


class BareEngine(Contestant):
    """`megaton-bench pipeline`: the engine that Megaton chooses, from memory to memory, in one process.

    It runs for a time and not for jobs, with the default quality, stores no outputs, and reports its own rate. CPU and
    memory are not measured, because it measures stages too.
    """

    name = "bare-engine"
    title = "Megaton's engine alone, from memory"
    is_whole_path = False
    engine_of = "megaton"

    def start(self, outputs: Path) -> None:
        pass

    def submit(self, batch: Batch) -> Mark:
        raise PeerFailed("it cannot do batches")

    def rate(self, photos: list[Photo], size: int, encoding: Encoding) -> tuple[float, float]:
        """Images per second, and the duration of the measurement."""
        paths = [str(photo.path) for photo in photos]
        # The time ends within the set: in order, images of the first packages would count more often.
        random.Random(0).shuffle(paths)
        pictures = self.home / "pictures.txt"
        pictures.write_text("\n".join(paths) + "\n")
        seconds = QUICK_ALONE_SECONDS if self.stage.settings.quick else ALONE_SECONDS
        command = [*self.stage.settings.benchmarks, "pipeline", str(pictures), "--json"]
        command += ["--engine", "auto", "--format", encoding.format, "--size", str(size)]
        command += ["--threads", str(self.cores), "--seconds", str(seconds)]
        child = self.spawn("run", command, talks=True)
        if child.poll(wait=True) != 0:
            child.check()
        assert child.process.stdout
        try:
            # The report fits into the buffer of a pipe.
            report = json.loads(child.process.stdout.read())
            rate, count = float(report["all"][0]["images_per_second"]), int(report["images"])
        except (ValueError, LookupError) as error:
            raise PeerFailed(f"it reported no rate: {error!r}\n{child.tail()}") from error
        if count < min(len(paths), PICTURES):
            raise PeerFailed(f"it rendered {count} of {len(paths)} images\n{child.tail()}")
        return rate, seconds
