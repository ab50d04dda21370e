"""Thumbor: it renders on demand, so a client with several connections requests all outputs and writes them."""

from __future__ import annotations

import sys
from pathlib import Path

from ..batch import Batch
from ..cases import AVIF, JPEG
from ..processes import free_port, listens, wait_until
from .base import Contestant, Mark, python_environment, script, write_jobs

CONFIGURATION = f"""
ALLOW_UNSAFE_URL = True
QUALITY = {JPEG.quality}
PROGRESSIVE_JPEG = False
RESPECT_ORIENTATION = True
AUTO_WEBP = False
AVIF_SPEED = {9 - (AVIF.effort or 0)}
LOADER = 'thumbor.loaders.http_loader'
STORAGE = 'thumbor.storages.no_storage'
RESULT_STORAGE = None
HTTP_LOADER_MAX_CLIENTS = 16
METRICS = 'thumbor.metrics.logger_metrics'
"""


class Thumbor(Contestant):
    """A process for each processor, nothing cached, and eight requests at a time."""

    name = "thumbor"
    title = "Thumbor (Pillow)"
    divisor = 2

    def start(self, outputs: Path) -> None:
        self._batches = 0
        configuration = self.home / "thumbor.conf"
        configuration.write_text(CONFIGURATION)
        port = free_port()
        arguments = [script("thumbor"), "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
        arguments += ["--processes", str(self.cores), "--conf", str(configuration)]
        server = self.spawn("server", arguments, python_environment())
        wait_until(lambda: listens(port), server)
        arguments = [sys.executable, "-m", "megaton_bench.peers.thumbor_client", str(port)]
        self._client = self.spawn("client", arguments, python_environment(), talks=True)

    def submit(self, batch: Batch) -> Mark:
        self._batches += 1
        path = write_jobs(self.home / f"thumbor-{self._batches}.json", batch)
        self._client.ask(f"load {path}", "loaded")
        mark = self.mark()
        self._client.ask("go", "submitted")
        return mark
