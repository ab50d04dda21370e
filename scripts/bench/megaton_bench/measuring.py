"""CPU time and memory of process trees, from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict

from .processes import Child

TICK = os.sysconf("SC_CLK_TCK")
#: Seconds between two samples of memory: fewer samples miss peaks, more of them slow the contestants down.
SAMPLE_SECONDS = 0.2
#: Most of the time of one processor that samples take: those of a large process take longer, and come less often, but
#: at least once a second.
SAMPLE_PART = 0.01
LONGEST_PAUSE = 1.0


def _stat(pid: int) -> tuple[int, int] | None:
    """Parent of a process, and its CPU time in ticks, including children that it has waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name is in parentheses and may contain anything: fields are counted from the last one.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]), sum(int(field) for field in fields[11:15])


def trees(roots: list[int]) -> dict[int, int]:
    """The processes at and beneath the roots, with their CPU time in ticks."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            pid = int(name)
            stat = _stat(pid)
            if stat:
                children[stat[0]].append(pid)
                ticks[pid] = stat[1]
    found: dict[int, int] = {}
    waiting = [pid for pid in roots if pid in ticks]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = ticks[pid]
            waiting += children[pid]
    return found


def cpu_seconds(children: list[Child]) -> float:
    """CPU time of these processes and all their descendants since their start, including ended ones."""
    ended = sum(child.spent or 0.0 for child in children if child.poll() is not None)
    running = [child.pid for child in children if child.code is None]
    return ended + sum(trees(running).values()) / TICK


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it ended meanwhile
    return 0


class MemorySampler:
    """Samples the memory of process trees in a thread, and stores the highest sum."""

    def __init__(self, children: list[Child]) -> None:
        self.peak = 0
        self._children = children
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            # A copy: a contestant may add a process meanwhile.
            roots = [child.pid for child in list(self._children) if child.code is None]
            before = time.thread_time()
            self.peak = max(self.peak, sum(pss_bytes(pid) for pid in trees(roots)))
            pause = (time.thread_time() - before) / SAMPLE_PART
            if self._stop.wait(min(LONGEST_PAUSE, max(SAMPLE_SECONDS, pause))):
                return
