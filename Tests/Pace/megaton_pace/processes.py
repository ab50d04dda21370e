"""Processes of a scenario. Each is ended by its own process id, whatever way the scenario ends."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_URGENCY = 10


def free_port():
    """A port of this machine that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listen_for_signals(listens):
    """Ctrl-C and SIGTERM raise KeyboardInterrupt, or nothing while processes are being ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if listens else signal.SIG_IGN)


def _end_with_parent():
    # The kernel ends the process if this one is killed and cannot do it.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _begin_urgent():
    _end_with_parent()
    # Each session has its share of the processors, whatever the nice value of its processes is. Without the right to
    # ask for a larger one, the process begins as all others do.
    with contextlib.suppress(OSError):
        os.nice(-_URGENCY)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(-_URGENCY))


class Process:
    """A process with its output in files.

    One that is urgent gets a processor before the others, as if it had a machine of its own.
    """

    def __init__(self, name, arguments, directory, environment=None, is_urgent=False):
        self.name = name
        base = os.path.join(directory, name)
        self.output_path, self.errors_path = base + ".out", base + ".err"
        with open(self.output_path, "wb") as output, open(self.errors_path, "wb") as errors:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                # A Ctrl-C at the terminal reaches the harness alone, which then ends the processes in order.
                start_new_session=True,
                preexec_fn=_begin_urgent if is_urgent else _end_with_parent,
            )

    @property
    def pid(self):
        return self._process.pid

    @property
    def code(self):
        """The exit code; None while the process runs."""
        return self._process.poll()

    @property
    def output(self):
        return _text(self.output_path)

    @property
    def errors(self):
        return _text(self.errors_path)

    def send(self, number):
        """Sends a signal, unless the process has ended."""
        if self.code is None:
            self._process.send_signal(number)

    def kill(self):
        """Kills the process and waits for its end."""
        self.send(signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds):
        """The exit code, or None if the process has not ended in time."""
        try:
            return self._process.wait(timeout=max(seconds, 0))
        except subprocess.TimeoutExpired:
            return None


class Processes:
    """All processes of a scenario."""

    def __init__(self, directory):
        self.directory = directory
        self._all = []

    def start(self, name, arguments, environment=None, is_urgent=False):
        process = Process(f"{len(self._all):03}-{name}", arguments, self.directory, environment, is_urgent)
        self._all.append(process)
        return process

    def end(self, seconds=20):
        """Ends all processes, the last one first. Returns the names of those that ignored SIGTERM."""
        for process in reversed(self._all):
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        deadline, stuck = time.monotonic() + seconds, []
        for process in reversed(self._all):
            if process.wait(deadline - time.monotonic()) is None:
                stuck.append(process.name)
                process.kill()
        self._all = []
        return stuck


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
