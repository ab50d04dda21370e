"""Dramatiq's broker and its only actor."""

from __future__ import annotations

from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from . import thumbnail

broker = RedisBroker(url=thumbnail.broker_url())
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0)
def task(url: str, outputs: list[list[Any]], encoding: list[Any]) -> None:
    thumbnail.thumbnail(url, outputs, encoding)


def submit(tasks: list[tuple[str, list[list[Any]], list[Any]]]) -> None:
    for arguments in tasks:
        task.send(*arguments)
