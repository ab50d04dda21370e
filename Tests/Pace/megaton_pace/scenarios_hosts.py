"""D3: hosts that are dead or limited cost other batches nothing."""

import statistics
import time

from megaton_pace.processes import free_port
from megaton_pace.result import Broken

# Each job of the healthy batch has a host of its own, so that no limit of a host concerns it.
HEALTHY = [f"127.2.{number // 250}.{number % 250 + 1}" for number in range(300)]
LIMITED = "127.3.0.1"
RATE = 5
# For so long healthy batches run beside the others.
SECONDS = 100


def slow_hosts(stage, result):
    """D3: 150,000 jobs each of a dead and of a limited host beside a healthy batch (170 s, at most 400 s)"""
    stage.start([1, 4, 16, 64], ["--host-rate", RATE])

    def healthy(name):
        return stage.median_of(3, lambda number: stage.seconds_of(
            name, stage.urls(f"{name}-{number}", len(HEALTHY), 1000, HEALTHY)))

    alone = healthy("alone")
    dead = free_port()
    lists = [stage.submit("dead", [f"http://127.4.0.1:{dead}/{number}.png" for number in range(150_000)], wait=False)]
    for number in range(10):
        urls = stage.urls(f"limited/10/{number}", 15_000, 10, [LIMITED])
        lists.append(stage.submit("limited", urls, wait=False))
    for batch in lists:
        code, _ = batch.wait(120)
        if code != 0:
            raise Broken(f"{batch.name} was not pushed: exit {code}: {batch.process.errors[-200:]}")
    requests, start = stage.requests("limited"), time.monotonic()
    beside, slowest = _beside(stage, result)
    seconds = time.monotonic() - start
    asked = (stage.requests("limited") - requests) / seconds
    retried = stage.status().get("retried", 0)
    for batch in lists:
        stage.call("batch", "cancel", batch.name)
    after = healthy("after")
    jobs = len(HEALTHY)
    result.pace(jobs / alone, jobs / beside, jobs / after)
    result.note(f"healthy batch of {jobs}: alone {alone:.1f} s, beside {beside:.1f} s, after {after:.1f} s; "
                f"limited host {asked:.1f} requests/s; {retried} retries")
    result.bound("time of a healthy batch beside them / alone, median of the last three", beside / alone, "<=", 1.2)
    result.bound("time of the slowest healthy batch beside them / alone", slowest / alone, "<=", 2)
    result.bound("time of the healthy batch after a cancel / alone", after / alone, "<=", 1.2)
    result.bound("requests per second of the limited host", asked, "<=", RATE * 1.1)
    result.bound("requests per second of the limited host", asked, ">=", RATE * 0.8)


def _beside(stage, result):
    """The healthy batch again and again, as a queue fills with jobs that wait only in the course of minutes.

    Returns the median of the last three and the slowest, or infinity once one does not end in 75 s: while the jobs of
    the dead host are given up, the batches may be slower for a moment.
    """
    times, start = [], time.monotonic()
    while time.monotonic() - start < SECONDS and float("inf") not in times:
        urls = stage.urls(f"beside-{len(times)}", len(HEALTHY), 1000, HEALTHY)
        times.append(stage.seconds_of("beside", urls))
        status = stage.status()
        waiting = ", ".join(f"{status[name]} {name}" for name in ("ready", "delayed", "held") if name in status)
        result.note(f"{time.monotonic() - start:.0f} s: a healthy batch took {times[-1]:.1f} s; {waiting}")
    return (times[-1] if times[-1] == float("inf") else statistics.median(times[-3:])), max(times)


SCENARIOS = {"slow-hosts": slow_hosts}
