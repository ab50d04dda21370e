"""Celery's application and its only task."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import worker_process_init

from . import thumbnail

app = Celery("bench", broker=thumbnail.broker_url())
app.conf.update(
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=8,
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    task_store_errors_even_if_ignored=False,
    broker_connection_retry_on_startup=True,
)


@worker_process_init.connect  # type: ignore[misc]
def _begin(**_: Any) -> None:
    thumbnail.prepare()


@app.task(name="thumbnail", ignore_result=True)  # type: ignore[misc]
def task(url: str, outputs: list[list[Any]], encoding: list[Any]) -> None:
    thumbnail.thumbnail(url, outputs, encoding)


def submit(tasks: list[tuple[str, list[list[Any]], list[Any]]]) -> None:
    """Sends all tasks by one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        for arguments in tasks:
            task.apply_async(args=arguments, producer=producer)
