"""D10 and D11: the cache Redis when it is full or absent, and what goes through it."""

import os
import time


def full_cache(stage, result):
    """D10: a full noeviction cache, and none, beside one that works (20 s, at most 310 s)"""
    stage.start([16, 16, 16, 16], cache=["maxmemory-policy noeviction"])

    def pace(name):
        # Many renditions of few sources, as all workers ask for the same originals.
        lines = [
            {"source": source, "renditions": [{"width": width}]}
            for width in range(1, 65)
            for source in stage.urls(name, 4, 250)
        ]
        seconds = stage.seconds_of(name, lines, "--output", os.path.join(stage.outputs, name))
        result.note(f"{name} cache: {len(lines)} jobs in {seconds:.1f} s, {stage.requests(name)} GETs")
        return seconds

    working = pace("working")
    stage.cache.client.send("CONFIG", "SET", "maxmemory", "1")
    full = pace("full")
    stage.cache.client.send("CONFIG", "SET", "maxmemory", "0")
    # A worker considers the cache full until 5 s after the last refusal.
    time.sleep(6)
    again = pace("again")
    stage.cache.kill()
    time.sleep(5)
    absent = pace("absent")
    result.bound("time with a full cache / with an absent one", full / absent, "<=", 1.5)
    result.bound("time with the cache that works again / before", again / working, "<=", 1.5)


def uncacheable(stage, result):
    """D11: commands of the cache Redis for each uncacheable response (15 s, at most 170 s)"""
    stage.start([16, 16, 4, 1])
    jobs = 400
    time.sleep(2)
    before = stage.cache.client.calls()
    time.sleep(5)
    idle = _difference(before, stage.cache.client.calls())
    figures = {}
    for name in ("cached", "uncached"):
        before, start = stage.cache.client.calls(), time.monotonic()
        stage.seconds_of(name, stage.urls(name, jobs, 50), "--output", os.path.join(stage.outputs, name))
        seconds = time.monotonic() - start
        calls = _difference(before, stage.cache.client.calls())
        figures[name] = {
            command: (count - idle.get(command, 0) * seconds / 5) / jobs for command, count in calls.items()
        }
        shown = ", ".join(f"{command} {count:.1f}" for command, count in sorted(figures[name].items()) if count > 0.05)
        result.note(f"commands for each {name} response: {shown}")
    published = sum(figures["uncached"].get(command, 0) for command in ("publish", "spublish"))
    result.bound("PUBLISH for each uncacheable response", published, "<=", 0.05)
    # EVALSHA and the commands within it are counted both.
    all_commands = [sum(figures[name].values()) for name in ("uncached", "cached")]
    result.bound("commands for each uncacheable response / cacheable one", all_commands[0] / all_commands[1], "<=", 1)
    time.sleep(2)
    channels = stage.cache.client.send("PUBSUB", "CHANNELS")
    waiting = sum(stage.cache.client.send("PUBSUB", "NUMSUB", *channels)[1::2]) if channels else 0
    result.bound("subscriptions of idle workers, for each worker", waiting / 4, "<=", 1)


def _difference(before, after):
    return {name: count - before.get(name, 0) for name, count in after.items()}


def cache_bytes(stage, result):
    """Design 9: bytes into the cache Redis for each photo of a list without repeats (5 s, at most 80 s)"""
    stage.start([16, 4])
    photos = 60
    before = int(stage.cache.client.info("stats")["total_net_input_bytes"])
    stage.seconds_of("photos", stage.urls("photos", photos, 50), "--output", os.path.join(stage.outputs, "photos"))
    each = (int(stage.cache.client.info("stats")["total_net_input_bytes"]) - before) / photos / 1000
    result.bound("kilobytes into the cache Redis for each photo", each, "<=", 25)
    result.bound("GETs for each photo", stage.requests("photos") / photos, "=", 1)


def local_cache(stage, result):
    """Design 9: --local-cache keeps originals while the cache Redis is gone (15 s, at most 240 s)"""
    stage.needs("worker", "--local-cache")
    stage.start([16], ["--local-cache", os.path.join(stage.directory, "local")])
    sources = stage.urls("local", 40, 50)
    for width in (8, 7):
        jobs = [{"source": source, "renditions": [{"width": width}]} for source in sources]
        stage.seconds_of("warm", jobs, "--output", os.path.join(stage.outputs, f"warm-{width}"))
    requests = stage.requests("local")
    stage.cache.kill()
    time.sleep(3)
    jobs = [{"source": source, "renditions": [{"width": 6}]} for source in sources]
    stage.seconds_of("without", jobs, "--output", os.path.join(stage.outputs, "without"))
    result.bound("GETs while the cache Redis is gone", stage.requests("local") - requests, "=", 0)


SCENARIOS = {
    "full-cache": full_cache,
    "uncacheable": uncacheable,
    "cache-bytes": cache_bytes,
    "local-cache": local_cache,
}
