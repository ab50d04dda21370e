"""D3: hosts that are dead, limited, new or hang cost other batches nothing."""

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


def new_host(stage, result):
    """A large batch of a host that is new to the queue beside small ones, of high and of the same priority (60 s)"""
    places = 28
    stage.start([4, 4, 4, 16])

    def small(name, *arguments):
        return stage.median_of(3, lambda number: stage.seconds_of(
            name, stage.urls(f"{name}-{number}", places, 500, HEALTHY), *arguments))

    alone = small("alone")
    large = stage.submit("large", stage.urls("large", 6_000, 500, ["127.5.0.1"]), wait=False)
    large.wait(60)
    time.sleep(5)
    ready = stage.status().get("ready", 0)
    high, same = small("high", "--priority", "high"), small("same")
    stage.call("batch", "cancel", large.name)
    after = small("after")
    result.pace(places / alone, places / same, places / after)
    result.note(f"{places} jobs of 0.5 s: alone {alone:.1f} s, high {high:.1f} s, same {same:.1f} s; {ready} ready")
    result.bound("time of a small batch of high priority beside it / alone", high / alone, "<=", 2.5)
    result.bound("time of a small batch of the same priority beside it / alone", same / alone, "<=", 4)
    result.bound("ready jobs for each place", ready / places, "<=", 5)


def hanging_hosts(stage, result):
    """Hosts that answer and then hang, whose requests have three quarters of the places, beside a healthy host (60 s)"""
    hosts, healthy = [f"127.6.0.{number}" for number in range(1, 4)], ["127.6.0.10"]
    stage.start([64, 64, 64, 64], ["--host-concurrency", 64])
    stage.seconds_of("answers", stage.urls("answers", 900, 5, hosts))

    def healthy_batch(name):
        return stage.seconds_of(name, stage.urls(name, 4_000, 20, healthy))

    alone = healthy_batch("alone")
    hanging = stage.submit("hanging", stage.urls("hanging", 9_000, 60_000, hosts), wait=False)
    stage.reach("hosts that hang", 20, lambda: stage.running() >= 180)
    claims = stage.control.client.calls().get("evalsha", 0)
    beside = healthy_batch("beside")
    claims = stage.control.client.calls().get("evalsha", 0) - claims
    stage.call("batch", "cancel", hanging.name)
    result.note(f"4,000 jobs of 20 ms: alone {alone:.1f} s, beside {beside:.1f} s with {claims} script calls")
    result.bound("time of the batch of the healthy host beside them / alone", beside / alone, "<=", 1.4)


SCENARIOS = {"slow-hosts": slow_hosts, "new-host": new_host, "hanging-hosts": hanging_hosts}
