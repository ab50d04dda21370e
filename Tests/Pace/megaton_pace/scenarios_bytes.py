"""D5 and D6: jobs of 738 KB do not stop the queue, nor Redis."""

import base64
import os
import time

from megaton_pace.origin import SIDE, png

COUNT, BYTES = 120, 738_000


def _sources(count):
    """Different data URLs of 738 KB."""
    found = []
    for number in range(count):
        image = png(SIDE, number) + os.urandom(BYTES * 3 // 4)
        found.append("data:image/png;base64," + base64.b64encode(image[: BYTES * 3 // 4]).decode())
    return found


def large_claims(stage, result):
    """D5: 120 admitted jobs of 738 KB for one worker of 128 places (25 s, at most 130 s)"""
    stage.start([128])
    stage.call("queue", "pause")
    watch = stage.watch_latency()
    batch = stage.submit("large", _sources(COUNT))
    stage.reach("all jobs admitted", 60, lambda: stage.status().get("ready", 0) >= COUNT)
    start = time.monotonic()
    stage.call("queue", "resume")
    batch.wait(60)
    result.note(f"{batch.count} done {time.monotonic() - start:.1f} s after they were allowed to run")
    batch.check(result, COUNT)
    stalled = stage.status().get("stalled")
    result.require("no lease expired", stalled == 0, f"{stalled} expired")
    stage.judge_latency(result, watch)


def large_intake(stage, result):
    """D6: batches of ten beside 360 jobs of 738 KB that are pushed and admitted (65 s, at most 240 s)"""
    stage.start([128])

    def small(name):
        urls = stage.urls(name, 10, 200)
        # Submitters of the large jobs are on other machines: they do not delay the start of this one's process.
        return stage.seconds_of("small", urls, limit=30, is_urgent=True)

    alone = stage.median_of(5, lambda number: small(f"alone-{number}"))
    watch = stage.watch_latency()
    large = [stage.submit("large", _sources(COUNT)) for _ in range(3)]
    stage.reach("large jobs in Redis", 60, lambda: any(batch.count for batch in large) or _staged(stage))
    times, start = [], time.monotonic()
    while any(batch.process.code is None for batch in large) and time.monotonic() - start < 60:
        times.append(small(f"beside-{len(times)}"))
        if times[-1] == float("inf"):
            break
    times.sort()
    beside = times[len(times) // 2] if times else None
    for batch in large:
        batch.wait(90)
        batch.check(result, COUNT)
    after = stage.median_of(5, lambda number: small(f"after-{number}"))
    shown = "none" if beside is None else f"{beside:.2f} s"
    result.note(f"batch of 10: alone {alone:.2f} s, beside {shown} ({len(times)} times), after {after:.2f} s")
    result.bound("time of a batch of 10 beside them / alone", beside and beside / alone, "<=", 2)
    stage.judge_latency(result, watch)


def _staged(stage):
    status = stage.status()
    return sum(status.get(name, 0) for name in ("intake", "staged", "ready", "running"))


SCENARIOS = {"large-claims": large_claims, "large-intake": large_intake}
