"""scripts/operate alerts: each alert of deploy/prometheus pending, firing and resolved, with real faults."""

import os
import sys
import time

from megaton_pace.processes import free_port
from megaton_pace.result import Broken

from megaton_operate.prometheus import RULES, Prometheus, alerts_of, shortened
from megaton_operate.run import execute, parser, positive

DEAD_HOST = "127.0.3.1"
DEAD_JOBS = 150
SLACK = 120
# By alert: the fault, and the seconds by the rule until it fires and until it ends after the repair.
FAULTS = {
    "MegatonHostCircuitOpen": ("a host refuses connections", 300, 60),
    "MegatonDeadLettersGrow": (f"{DEAD_JOBS} images are missing", 0, 60),
    "MegatonCacheFull": ("the cache Redis is full and evicts nothing", 300, 660),
    "MegatonCoordinatorsMissing": ("kill -9 of both coordinators", 120, 30),
    "MegatonNoLeader": ("kill -9 of all processes that can lead", 90, 60),
    "MegatonNoWorker": ("kill -9 of both workers, with jobs", 150, 30),
    "MegatonWorkersSilent": ("kill -9 of both workers, with jobs", 60, 420),
    "MegatonBacklogTooOld": ("50 jobs wait in a paused queue", 1200, 30),
    "MegatonQueuePaused": ("the queue is left paused", 1800, 30),
    "MegatonRedisDown": ("kill -9 of the control Redis", 60, 60),
}


class Trial:
    """The cluster under Prometheus, and the times of each alert."""

    def __init__(self, site, result, factor):
        self.site, self.result, self.factor = site, result, factor
        # A scrape of a cluster whose Redis is away takes up to 5 s.
        self.interval = 15 if factor == 1 else max(15 / factor, 2)
        self.begun, self.mended, self.rows = {}, {}, {}
        self.coordinators, self.workers = site.free_ports(2), site.free_ports(2)
        self.processes = {}
        self.dead_port = free_port()
        self.dead_host = None
        self.feeds = {}

    # The cluster

    def start(self):
        site = self.site
        site.start_servers(control=("appendonly yes",), cache=("maxmemory-policy noeviction",))
        site.start_origin()
        self.dead_host = self.start_dead_host()
        self.start_fleet()
        metrics = free_port()
        site.serve("--open", metrics=metrics)
        site.ready(2)
        with open(RULES, encoding="utf-8") as file:
            text = file.read()
        rules = RULES
        if self.factor != 1:
            rules = site.write("rules.yml", shortened(text, self.factor, 4 * self.interval).splitlines())
        self.alerts = alerts_of(text)
        self.result.require("each alert has a fault here", self.alerts.keys() == FAULTS.keys(),
                            f"{sorted(self.alerts.keys() ^ FAULTS.keys())}")
        ports = [*self.coordinators, *self.workers, metrics]
        self.prometheus = Prometheus(site, ports, rules, self.interval)
        site.reach("an answer of each target", 60 + 2 * self.interval, lambda: self.prometheus.targets_up() == 5)
        # Each kind of counter is there before its fault.
        batch = site.submit("healthy", site.urls("healthy", 20, 0))
        batch.wait(60)
        batch.check(self.result, 20)
        time.sleep(3 * self.interval)
        quiet = [name for name in self.alerts if self.prometheus.state(name) != "inactive"]
        self.result.require("no alert before the faults", not quiet, ", ".join(quiet))

    def start_fleet(self):
        for port in self.coordinators:
            self.processes[port] = self.site.coordinate(port)
        for port in self.workers:
            self.processes[port] = self.site.work(port, "--concurrency", 8, "--host-concurrency", 100)

    def start_dead_host(self):
        return self.site.module("host", "megaton_operate.origin_process", DEAD_HOST, self.dead_port)

    # Faults and repairs

    def begin(self, *names):
        for name in names:
            self.begun[name] = time.monotonic()
            self.result.note(f"fault: {FAULTS[name][0]} ({name})")

    def mend(self, *names):
        for name in names:
            self.mended[name] = time.monotonic()
        self.result.note(f"mended: {', '.join(names)}")

    def feed(self, name, seconds, submit):
        """Repeats a part of a fault while others are waited for."""
        self.feeds[name] = [seconds, time.monotonic() - seconds, submit]

    def wait(self, names, state):
        """Waits until each alert has a state, and notes when it had it first."""
        is_firing = state == "firing"
        since = self.begun if is_firing else self.mended
        limits = {name: since[name] + FAULTS[name][1 if is_firing else 2] / self.factor + SLACK for name in names}
        waiting = set(names)
        while waiting:
            for name in sorted(waiting):
                at = self.prometheus.first(name, state, since[name])
                if at is None and not is_firing and self.prometheus.state(name) == "inactive":
                    at = since[name]    # It had ended by itself, as a range of the rule was over.
                if at is not None:
                    self._reached(name, state, at - since[name])
                    waiting.discard(name)
                elif time.monotonic() > limits[name]:
                    self._reached(name, state, None)
                    waiting.discard(name)
            for feed in self.feeds.values():
                if time.monotonic() - feed[1] >= feed[0]:
                    feed[1] = time.monotonic()
                    feed[2]()
            time.sleep(0.2)

    def _reached(self, name, state, seconds):
        row = self.rows.setdefault(name, {})
        word = "resolved" if state == "inactive" else state
        row[word] = seconds
        if seconds is None:
            self.result.require(f"{name} is {word}", False, "not in time")
            return
        if state == "firing" and self.alerts[name]:
            at = self.prometheus.first(name, "pending", self.begun[name])
            row["pending"] = None if at is None else at - self.begun[name]
            self.result.require(f"{name} is pending before it fires", at is not None)
        self.result.require(f"{name} is {word} after {seconds:.0f} s", True)

    def table(self):
        """The times as a table of Markdown."""
        def cell(name, key):
            seconds = self.rows.get(name, {}).get(key)
            return "–" if seconds is None else f"{seconds:.0f} s"

        lines = ["", "| fault | alert | pending | firing | resolved after the repair |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for name, (fault, *_) in FAULTS.items():
            times = " | ".join(cell(name, key) for key in ("pending", "firing", "resolved"))
            lines.append(f"| {fault} | `{name}` | {times} |")
        return lines


def alerts(site, result, options):
    trial = Trial(site, result, options.shorten)
    trial.start()
    try:
        _jobs_fail(trial)
        _processes_die(trial)
        _redis_dies(trial)
    finally:
        trial.prometheus.end()
        print("\n".join(trial.table()), flush=True)
    if options.shorten != 1:
        result.note(f"the durations of the rules were divided by {options.shorten:g}")


def _jobs_fail(trial):
    """A host that is down, images that are missing, and a cache that is full."""
    site = trial.site
    trial.dead_host.kill()
    source = f"http://{DEAD_HOST}:{trial.dead_port}/dead/0/"
    numbers = iter(range(10**9))

    def ask_dead_host():
        site.submit("down", [f"{source}{next(numbers)}.png" for _ in range(20)], "--attempts", "30", wait=False)

    trial.begin("MegatonHostCircuitOpen")
    trial.feed("circuit", 20, ask_dead_host)
    trial.begin("MegatonDeadLettersGrow")
    missing = [f"http://127.0.1.2:{site.origin_port}/missing/{number}" for number in range(DEAD_JOBS)]
    site.submit("missing", missing, wait=False)
    used = int(site.cache.client.info("memory")["used_memory"])
    site.cache.client.send("CONFIG", "SET", "maxmemory", used + (2 << 20))
    trial.begin("MegatonCacheFull")

    def store_photos():
        urls = [f"http://127.0.1.3:{site.origin_port}/photo/0/{next(numbers)}.png" for _ in range(8)]
        site.submit("photo", urls, "--size", "480x480", "--format", "png", wait=False)

    trial.feed("cache", 30, store_photos)
    names = ("MegatonHostCircuitOpen", "MegatonDeadLettersGrow", "MegatonCacheFull")
    trial.wait(names, "firing")
    del trial.feeds["cache"]
    trial.dead_host = trial.start_dead_host()
    site.cache.client.send("CONFIG", "SET", "maxmemory", 0)
    code, _, errors = site.call("dead", "drop", "--all", "--yes")
    trial.result.require("megaton dead drop ends with 0", code == 0, errors[-200:])
    trial.mend(*names)
    trial.wait(names[:2], "inactive")
    # Until here, as the circuit breaker is closed by a job that comes.
    trial.feeds.clear()


def _processes_die(trial):
    """Coordinators and workers are killed while the queue is paused and jobs wait."""
    site = trial.site
    site.call("queue", "pause")
    trial.begin("MegatonQueuePaused", "MegatonBacklogTooOld")
    site.submit("waiting", site.urls("waiting", 50, 0), wait=False)
    site.reach("50 ready jobs", 60, lambda: site.status().get("ready", 0) >= 50)
    for port in trial.coordinators:
        trial.processes[port].kill()
    trial.begin("MegatonCoordinatorsMissing")
    for port in trial.workers:
        trial.processes[port].kill()
    names = ("MegatonNoLeader", "MegatonNoWorker", "MegatonWorkersSilent")
    trial.begin(*names)
    names = ("MegatonCoordinatorsMissing", *names)
    trial.wait(names, "firing")
    trial.start_fleet()
    trial.mend(*names)
    trial.wait([*names, "MegatonCacheFull"], "inactive")
    trial.wait(("MegatonBacklogTooOld", "MegatonQueuePaused"), "firing")
    site.call("queue", "resume")
    trial.mend("MegatonBacklogTooOld", "MegatonQueuePaused")
    trial.wait(("MegatonBacklogTooOld", "MegatonQueuePaused"), "inactive")
    site.reach("the end of all jobs", 120, lambda: _is_idle(site.status()))


def _is_idle(status):
    return status and not sum(status.get(state, 0) for state in ("intake", "staged", "ready", "running"))


def _redis_dies(trial):
    """The control Redis is killed, and started again with its data."""
    trial.site.control.kill()
    trial.begin("MegatonRedisDown")
    trial.wait(("MegatonRedisDown",), "firing")
    trial.site.control.start()
    trial.mend("MegatonRedisDown")
    trial.wait(("MegatonRedisDown",), "inactive")


def main(arguments):
    made = parser("alerts", "Runs a cluster under a real Prometheus with the rules of deploy, makes each fault and "
                  "mends it: each alert must be pending, fire and be resolved. Prints a table of the times. Takes "
                  "about 45 minutes, with --shorten 30 about 5.")
    made.add_argument("--shorten", type=positive, default=1, metavar="FACTOR",
                      help="divide the durations of the rules by this, for a smoke; 1 by default")
    options = made.parse_args(arguments)
    if not os.path.exists("/usr/bin/prometheus"):
        print("/usr/bin/prometheus is missing; scripts/operate installs it", file=sys.stderr)
        return 64
    total = sum(fire + end for _, fire, end in FAULTS.values()) / options.shorten + len(FAULTS) * SLACK
    return execute("alerts", alerts, options, total)
