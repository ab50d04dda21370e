"""Processes of the benchmark, each with a log and a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .errors import PeerFailed


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """True if a process listens on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(is_up: Callable[[], bool], child: Child, seconds: float = 20) -> None:
    """Waits until a child is up; fails at once if it ends."""
    deadline = time.monotonic() + seconds
    while not is_up():
        child.check()
        if time.monotonic() > deadline:
            raise PeerFailed(f"{child.name} was not up within {seconds:.0f} s; the end of its log:\n{child.tail()}")
        time.sleep(0.02)


class Child:
    """A child process in a session of its own.

    Because of the session, a Ctrl-C of the terminal does not reach it, so that all processes end in order; its
    process group includes the children that it forks.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        log: Path,
        environment: dict[str, str] | None = None,
        talks: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        #: CPU seconds of the process and of all children it waited for; known after its end.
        self.spent: float | None = None
        self.code: int | None = None
        with open(log, "ab") as output:
            try:
                self.process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if talks else output,
                    stderr=output,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                    text=True,
                )
            except OSError as error:
                raise PeerFailed(f"{name} cannot be started: {error}") from error

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self, wait: bool = False) -> int | None:
        """Its exit code, or None while it runs.

        Uses `wait4` instead of Popen's own, because only `wait4` returns the CPU time of an ended process. The rest of
        the process group is ended before: until `wait4` no other process can get its number.
        """
        if self.code is None:
            flags = os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)
            if os.waitid(os.P_PID, self.pid, flags) is None:
                return None
            self._signal(signal.SIGKILL, group=True)
            _, status, usage = os.wait4(self.pid, 0)
            self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.spent = usage.ru_utime + usage.ru_stime
        return self.code

    def check(self) -> None:
        """Raises an error if it has ended."""
        code = self.poll()
        if code is not None:
            raise PeerFailed(f"{self.name} ended with code {code}; the end of its log:\n{self.tail()}")

    def ask(self, line: str, answer: str) -> None:
        """Sends a line to a child with `talks`, and waits for the answer."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            received = self.process.stdout.readline().strip()
        except OSError as error:
            raise PeerFailed(f"{self.name}: {error}; the end of its log:\n{self.tail()}") from error
        if received != answer:
            raise PeerFailed(
                f"{self.name} answered {received!r} instead of {answer!r}; the end of its log:\n{self.tail()}"
            )

    def tail(self, lines: int = 8) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join("    " + line for line in text.splitlines()[-lines:])

    def end(self, seconds: float = 5, number: int = signal.SIGTERM) -> None:
        """Ends it and the rest of its process group."""
        if self.poll() is None:
            self._signal(number, group=False)
            deadline = time.monotonic() + seconds
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
        if self.poll() is None:
            self._signal(signal.SIGKILL, group=True)
            self.poll(wait=True)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                # Unwritten data has no reader if the process has ended.
                with contextlib.suppress(OSError):
                    pipe.close()

    def _signal(self, number: int, group: bool) -> None:
        try:
            if group:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass  # it ended by itself
