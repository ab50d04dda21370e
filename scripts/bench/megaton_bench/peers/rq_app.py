"""The queue of RQ, and a worker that imports the modules of its jobs before it forks."""

from __future__ import annotations

import sys
from typing import Any

import redis
from rq import Queue, SimpleWorker, Worker

from . import thumbnail


def _queue() -> Queue:
    return Queue("bench", connection=redis.Redis.from_url(thumbnail.broker_url()))


def submit(tasks: list[tuple[str, list[list[Any]], list[Any]]]) -> None:
    """Enqueues all tasks in one pipeline, without stored results."""
    queue = _queue()
    queue.enqueue_many([Queue.prepare_data(thumbnail.thumbnail, args=arguments, result_ttl=0) for arguments in tasks])


def work(simple: bool) -> None:
    """Works until SIGTERM. RQ advises to import before the fork; libvips must be initialized after it."""
    import urllib3  # noqa: F401

    if simple:
        thumbnail.prepare()
    worker = (SimpleWorker if simple else Worker)([_queue()])
    worker.log_job_description = False
    worker.work(logging_level="WARNING")


if __name__ == "__main__":
    work(simple="--simple" in sys.argv)
