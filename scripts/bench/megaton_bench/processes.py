"""Processes of the benchmark: started with a log each, and ended by their own process group."""

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
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """True when somebody does on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(is_up: Callable[[], bool], child: Child, seconds: float = 20) -> None:
    """Waits until a child is up; its end is an error at once."""
    deadline = time.monotonic() + seconds
    while not is_up():
        child.check()
        if time.monotonic() > deadline:
            raise PeerFailed(f"{child.name} was not up within {seconds:.0f} s; its last lines:\n{child.tail()}")
        time.sleep(0.02)


class Child:
    """A process that was started here, in a session of its own.

    The session keeps a Ctrl-C of the terminal from it, so that all are ended in order, and its process
    group reaches the children it forked.
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
        #: CPU seconds of it and of all children it waited for, known once it has ended.
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

        `wait4` instead of Popen's own, as only that tells the CPU time of what has ended. What is left of the
        process group is ended before: until `wait4` nobody else can have its number.
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
        """Throws when it is no longer there."""
        code = self.poll()
        if code is not None:
            raise PeerFailed(f"{self.name} ended with code {code}; its last lines:\n{self.tail()}")

    def ask(self, line: str, answer: str) -> None:
        """Sends a line to a child that talks, and waits for the answer."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            heard = self.process.stdout.readline().strip()
        except OSError as error:
            raise PeerFailed(f"{self.name}: {error}; its last lines:\n{self.tail()}") from error
        if heard != answer:
            raise PeerFailed(f"{self.name} said {heard!r} instead of {answer!r}; its last lines:\n{self.tail()}")

    def tail(self, lines: int = 8) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join("    " + line for line in text.splitlines()[-lines:])

    def end(self, seconds: float = 5, number: int = signal.SIGTERM) -> None:
        """Ends it, and whatever is left of its process group."""
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
                # What was not yet written to a process that has ended has no reader.
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
