"""libvips without a pipeline around it: what there is to be won by one. Both read local files."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..batch import Batch
from ..errors import PeerFailed
from ..settings import QUALITY
from .base import Contestant, Mark, python_environment

#: Files that one vipsthumbnail gets: enough to make its start cheap, few enough to share the batch evenly.
FILES_EACH = 8


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
        # It names an output after its input: links give each job a name.
        links = self.home / f"vipsthumbnail-{self._batches}"
        links.mkdir()
        size = batch.sizes[0]
        for job in batch.jobs:
            (links / f"{job.index:06d}-{size}.jpg").symlink_to(job.photo.path)
        names = self.home / f"vipsthumbnail-{self._batches}.txt"
        names.write_text("".join(f"{links}/{job.index:06d}-{size}.jpg\0" for job in batch.jobs))
        arguments = ["xargs", "-0", "-a", str(names), "-P", str(self.cores), "-n", str(FILES_EACH)]
        arguments += ["vipsthumbnail", "--size", f"{size}x{size}>"]
        arguments += ["--output", f"{batch.outputs}/%s.jpg[Q={QUALITY},strip]"]
        mark = self.mark()
        child = self.spawn(f"run-{self._batches}", arguments, python_environment())
        if child.poll(wait=True) != 0:
            child.check()
        return mark


class BareLoop(Contestant):
    """A C loop over `vips_thumbnail_buffer` and `vips_jpegsave_buffer`, a thread for each processor.

    It reads its files before the clock starts: no network, no queue, no cache. The ceiling of libvips.
    """

    name = "bare-loop"
    title = "bare libvips loop, files in memory"
    is_whole_path = False

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
        program = self.stage.settings.build / "vips_loop"
        child = self.spawn(f"run-{self._batches}", [str(program), str(self.cores), str(QUALITY), str(jobs)], talks=True)
        child.ask("load", "loaded")
        mark = self.mark()
        child.ask("go", "done")
        return mark
