"""D3: hosts that are dead or limited cost other batches nothing."""

import time

from megaton_pace.processes import free_port

# Each job of the healthy batch has a host of its own, so that no limit of a host concerns it.
HEALTHY = [f"127.2.{number // 250}.{number % 250 + 1}" for number in range(300)]
LIMITED = "127.3.0.1"
RATE = 5


def slow_hosts(stage, result):
    """D3: 150,000 jobs of a dead host and ten batches of a limited one beside a healthy batch (at most 240 s)"""
    stage.start([1, 4, 16, 64], ["--host-rate", RATE])

    def healthy(name):
        return stage.median_of(3, lambda number: stage.seconds_of(
            name, stage.urls(f"{name}-{number}", len(HEALTHY), 1000, HEALTHY)))

    alone = healthy("alone")
    dead = free_port()
    lists = [stage.submit("dead", [f"http://127.4.0.1:{dead}/{number}.png" for number in range(150_000)], wait=False)]
    for number in range(10):
        urls = stage.urls(f"limited/10/{number}", 2000, 10, [LIMITED])
        lists.append(stage.submit("limited", urls, wait=False))
    for batch in lists:
        code, _ = batch.wait(120)
        result.require(f"{batch.name} is pushed", code == 0, f"exit {code}: {batch.process.errors[-200:]}")
    time.sleep(8)
    requests, start = stage.requests("limited"), time.monotonic()
    beside = healthy("beside")
    time.sleep(max(0, 10 - (time.monotonic() - start)))
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
    result.bound("time of the healthy batch beside them / alone", beside / alone, "<=", 1.2)
    result.bound("time of the healthy batch after a cancel / alone", after / alone, "<=", 1.2)
    result.bound("requests per second of the limited host", asked, "<=", RATE * 1.1)
    result.bound("requests per second of the limited host", asked, ">=", RATE * 0.8)


SCENARIOS = {"slow-hosts": slow_hosts}
