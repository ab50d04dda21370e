"""img2dataset: a process for each processor with eight threads, its own resizing (OpenCV), files as output."""

from __future__ import annotations

import math
import time
from pathlib import Path

from ..batch import Batch, Job
from ..errors import PeerFailed
from .base import STALL_SECONDS, Contestant, Mark, python_environment, script


class Img2dataset(Contestant):
    """A program that ends with its batch and so cannot be warmed up.

    Time and CPU are measured from its first GET, so that seconds of imports do not count.
    """

    name = "img2dataset"
    title = "img2dataset"
    divisor = 2

    def start(self, outputs: Path) -> None:
        self._batches = 0

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        urls = self.home / f"img2dataset-{self._batches}.txt"
        urls.write_text("".join(job.url + "\n" for job in batch.jobs))
        options = {
            "url_list": urls,
            "output_folder": batch.outputs,
            "input_format": "txt",
            "output_format": "files",
            "processes_count": self.cores,
            "thread_count": 8,
            "number_sample_per_shard": self._shard(batch),
            "image_size": batch.sizes[0],
            "resize_mode": "keep_ratio_largest",
            "resize_only_if_bigger": True,
            "encode_format": batch.encoding.extension,
            "encode_quality": batch.encoding.quality,
            "extract_exif": False,
            "compute_hash": None,
        }
        arguments = [script("img2dataset"), *(f"--{name}={value}" for name, value in options.items())]
        begin = self.stage.origin.mark()
        environment = {**python_environment(), "NO_ALBUMENTATIONS_UPDATE": "1"}
        child = self.spawn(f"run-{self._batches}", arguments, environment)
        deadline = time.monotonic() + STALL_SECONDS
        while self.stage.origin.mark() == begin:
            child.check()
            if time.monotonic() > deadline:
                raise PeerFailed("it requested no image\n" + child.tail())
            time.sleep(0.002)
        return self.mark()

    def output(self, batch: Batch, job: Job, size: int) -> Path:
        """Its files are named after the shard and the position in it."""
        position = job.index - batch.jobs[0].index
        per_shard = self._shard(batch)
        digits = math.ceil(math.log10(per_shard))
        shard, key = divmod(position, per_shard)
        return batch.outputs / f"{shard:05d}" / f"{10**digits * shard + key:0{digits + 5}d}.{batch.encoding.extension}"

    def _shard(self, batch: Batch) -> int:
        """A shard for each process, so that threads are idle as rarely as possible."""
        return max(2, math.ceil(len(batch.jobs) / self.cores))
