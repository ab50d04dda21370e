"""D1, D2 and D12: workers that die, uneven workers, and priorities."""

import json
import statistics
import time

# Seconds in which a fleet has recovered from a death: a lease of 15 s and 5 s more.
RECOVERY = 20
# Jobs in progress for each place of a worker if most of them take more than a second to fetch: these leave their places.
LONG = 4


def death(stage, result):
    """D1: two workers of 64 places, jobs of 3 s, one killed (70 s)"""
    _death(stage, result, places=[64, 64], victims=1)


def death_of_four(stage, result):
    """D1: four workers of 16 places, jobs of 3 s, one killed (70 s)"""
    _death(stage, result, places=[16] * 4, victims=1)


def _death(stage, result, places, victims):
    stage.start(places)
    # Different times, so that the ends of jobs do not come in waves.
    batch = stage.submit("death", stage.urls("death", 6000, (2000, 4000)))
    stage.reach("a fleet at work", 60, lambda: stage.running() > 0.9 * sum(places))
    time.sleep(6)
    before = batch.pace(15)
    own = before * (len(places) - victims) / len(places)
    for worker in stage.workers[:victims]:
        worker.kill()
    during, after = batch.pace(RECOVERY), batch.pace(15)
    result.pace(before, during, after)
    result.bound(f"the others' pace / their own before, {RECOVERY} to {RECOVERY + 15} s after the kill",
                 after / own, ">=", 0.9)
    batch.check_doubles(result)
    dead = stage.status().get("dead")
    result.require("no job is dead", dead == 0, f"{dead} are dead")


def uneven(stage, result):
    """D2: one worker of 64 places, then 20 of one place beside it, then alone again (65 s)"""
    stage.start([64])
    # Jobs of a second and more would leave their places to others.
    batch = stage.submit("uneven", stage.urls("uneven", 10_000, (600, 900)))
    stage.reach("the large worker full", 60, lambda: stage.running() > 57)
    time.sleep(3)
    alone = batch.pace(10)
    small = [stage.start_worker(1) for _ in range(20)]
    stage.ready(21)
    time.sleep(4)
    together = batch.pace(15)
    for worker in small:
        worker.send(15)
    time.sleep(4)
    after = batch.pace(10)
    result.pace(alone, together, after)
    result.bound("pace of 1 x 64 and 20 x 1 / pace of 1 x 64", together / alone, ">=", 1.25)
    result.bound("pace after the small ones ended / pace before", after / alone, ">=", 0.9)
    batch.check_doubles(result)


def mixed(stage, result):
    """D1 and D2: 1, 4, 16 and 64 places, jobs of 1 ms to 10 s, the large worker killed (70 s)"""
    places = [1, 4, 16, 64]
    stage.start(places)
    # As many jobs of 1 to 10 ms as of 1 to 10 s.
    batch = stage.submit("mixed", stage.urls("mixed", 12_000, lambda: int(10 ** (stage.random.random() * 4))))
    stage.reach("a fleet at work", 60, lambda: stage.running() > 60)
    time.sleep(5)
    before = stage.occupancy(85 * LONG, 15)
    stage.workers[-1].kill()
    # The origin still answers the dead worker for 10 s.
    time.sleep(10)
    during = stage.occupancy(21 * LONG, RECOVERY - 10)
    after = stage.occupancy(21 * LONG, 15)
    result.note(f"share of the jobs that the living workers may have: {before:.2f}, {during:.2f}, {after:.2f}")
    result.bound("share before the kill", before, ">=", 0.85)
    result.bound("share after the recovery / share before", after / before, ">=", 0.9)
    batch.check_doubles(result)


def priority(stage, result):
    """D12: high jobs behind 150,000 normal ones, and bulk jobs beside high ones (55 s, at most 260 s)"""
    stage.start([1, 4, 16, 64])
    alone = stage.median_of(3, lambda number: stage.seconds_of(
        "alone", stage.urls(f"alone-{number}", 10, 100), "--priority", "high"))
    _push(stage, "jobs", stage.urls("normal", 150_000, 600))
    stage.reach("a fleet at work", 60, lambda: stage.running() > 76)
    began, ended = [], []
    for number in range(3):
        start, group = time.monotonic(), f"high-{number}"
        high = stage.submit("high", stage.urls(group, 10, 100), "--priority", "high")
        began.append(_began(stage, group, start, 20))
        ended.append(high.wait(20)[1])
    result.note(f"ten high jobs: alone {alone:.2f} s, behind the normal ones "
                + ", ".join(f"{seconds:.2f} s" for seconds in ended))
    result.bound("seconds until a high job of a batch began", _median(began), "<=", 2)
    _front_door(stage, result)
    _starvation(stage, result)


def _push(stage, name, sources, priority="normal"):
    """Pushes jobs to a public list, as a foreign client does."""
    for start in range(0, len(sources), 1000):
        jobs = [
            json.dumps({"id": f"{name}-{source.split('/', 3)[3].replace('/', '-')}", "source": source,
                        "renditions": [{"width": 8}], "priority": priority})
            for source in sources[start : start + 1000]
        ]
        stage.control.client.send("LPUSH", "megaton:{default}:" + name, *jobs)


def _began(stage, group, start, seconds):
    """Seconds from `start` to the first request of a group; None if there was none in time."""
    while time.monotonic() - start < seconds:
        if stage.requests(group):
            return time.monotonic() - start
        time.sleep(0.02)
    return None


def _median(values):
    return None if None in values else statistics.median(values)


def _front_door(stage, result):
    """High jobs in the list that is for them. In the list of all they wait for those before them."""
    begun = []
    for number in range(3):
        group, start = f"door-{number}", time.monotonic()
        _push(stage, "jobs:high", stage.urls(group, 1, 10), "high")
        begun.append(_began(stage, group, start, 5))
    helps = [stage.call(command, "--help")[1] for command in ("submit", "coordinator", "worker")]
    if begun == [None] * 3 and not any("jobs:high" in text for text in helps):
        result.not_built("the public list jobs:high")
    else:
        result.bound("seconds until a job of the list jobs:high began", _median(begun), "<=", 2)


def _starvation(stage, result):
    """Of 21 jobs 16 are high, 4 normal and one bulk while there are enough of each."""
    stage.submit("bulk", stage.urls("bulk", 3000, 600), "--priority", "bulk", wait=False).wait(60)
    stage.submit("highs", stage.urls("highs", 12_000, 600), "--priority", "high", wait=False).wait(60)
    stage.reach("high jobs at work", 30, lambda: stage.requests("highs") > 60)
    names = ("highs", "normal", "bulk")
    before = {name: stage.requests(name) for name in names}
    time.sleep(15)
    begun = {name: stage.requests(name) - before[name] for name in names}
    every = max(sum(begun.values()), 1)
    result.note("begun in 15 s: " + ", ".join(f"{count} {name}" for name, count in begun.items()))
    result.bound("share of high jobs", begun["highs"] / every, ">=", 0.5)
    result.bound("share of bulk jobs", begun["bulk"] / every, ">=", 0.024)


def smoke(stage, result):
    """D1 in short: places of 1, 4, 8 and 8, jobs of 1 s, a worker of 8 killed (25 s)"""
    places = [1, 4, 8, 8]
    stage.start(places, ("--lease", 3, "--flight-lease", 3))
    batch = stage.submit("smoke", stage.urls("smoke", 1000, (700, 1300)))
    stage.reach("a fleet at work", 20, lambda: stage.running() > 0.8 * sum(places))
    time.sleep(1)
    before = batch.pace(4)
    stage.workers[-1].kill()
    # A lease and 2 seconds.
    during, after = batch.pace(5), batch.pace(4)
    result.pace(before, during, after)
    own = before * sum(places[:-1]) / sum(places)
    result.bound("the others' pace / their own before, 5 to 9 s after the kill", after / own, ">=", 0.8)
    batch.check_doubles(result)


SCENARIOS = {
    "death": death,
    "death-of-four": death_of_four,
    "uneven": uneven,
    "mixed": mixed,
    "priority": priority,
    "smoke": smoke,
}
