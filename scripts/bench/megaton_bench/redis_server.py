"""Private Redis servers, without persistence, on a free port."""

from __future__ import annotations

import shutil
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import BenchError, PeerFailed
from .processes import Child, free_port, wait_until


class RedisServer:
    """One redis-server, as the broker of queues or as Megaton's cache."""

    def __init__(self, name: str, home: Path, arguments: list[str]) -> None:
        self.name = name
        self.home = home
        self.port = 0
        self._arguments = arguments
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = shutil.which("redis-server")
        if not program:
            raise BenchError("redis-server is missing: apt-get install redis-server")
        self.home.mkdir(parents=True)
        for attempt in range(3):
            self.port = free_port()
            arguments = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.home)]
            arguments += ["--save", "", "--appendonly", "no", *self._arguments]
            self._child = Child(f"redis-server ({self.name})", arguments, self.home / "redis.log")
            try:
                wait_until(self._is_ours, self._child)
                return
            except PeerFailed as error:
                self.stop()
                if attempt == 2 or "Address already in use" not in str(error):
                    raise BenchError(str(error)) from error

    def _is_ours(self) -> bool:
        """True if the server on the port is our child."""
        try:
            with redis.Redis(port=self.port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
                process = client.info("server")["process_id"]  # type: ignore[index]
        except redis.RedisError:
            return False
        return self._child is not None and process == self._child.pid

    def stop(self) -> None:
        if self._child:
            self._child.end()
            self._child = None

    def flush(self) -> None:
        """Deletes all data, so that no run depends on another."""
        with redis.Redis(port=self.port) as client:
            client.flushall()
