"""scripts/operate faults: a cluster with five faults, for an operator who looks at its dashboard."""

import os
import signal
import time

from megaton_pace.processes import free_port
from megaton_pace.result import Broken

from megaton_operate.run import execute, parser, positive
from megaton_operate.site import ask

HOST = "127.0.3.1"
# A worker that is gone is shown from 15 s after its last heartbeat on, and forgotten after 60 s.
CRASH_INTERVAL = 35
LEASE = 5


def _parent(pid):
    """The parent of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Fleet:
    """A coordinator, an HTTP server and two workers, and the faults that are planted among them."""

    def __init__(self, site, say):
        self.site, self.say = site, say
        self.workers = {}
        self.crashed, self.asked, self.host = 0.0, 0, None

    def start(self):
        site = self.site
        site.start_servers(cache=("maxmemory-policy noeviction",))
        site.start_origin()
        site.coordinator = site.launch("coordinator", "coordinator", "--log-level", "warning")
        site.serve("--open", "--unsigned-images", "--allow-private", "--log-level", "notice")
        for _ in range(2):
            self.add_worker()
        site.ready(2)
        batch = site.submit("catalog", site.urls("catalog", 200, (0, 50)), "--size", "320x320")
        if batch.wait(120)[0] != 0:
            raise Broken(f"the healthy batch: {batch.process.errors[-300:]}")

    def add_worker(self):
        """Starts a worker. Its name has its process id."""
        worker = self.site.work(free_port(), "--concurrency", 8, "--lease", LEASE)
        self.workers[worker.pid] = worker
        return worker

    def kill_owner(self, id):
        """Kills the process that runs a job: a worker, or the process in which a worker isolates suspects."""
        for one in self.site.dashboard()["workers"]:
            if not one["is_living"] or all(job["id"] != id for job in one["jobs"]):
                continue
            pid = int(one["name"].split(":")[1])
            worker = self.workers.get(pid)
            if worker and worker.code is None:
                worker.kill()
                self.add_worker()
            elif _parent(pid) in self.workers:
                os.kill(pid, signal.SIGKILL)

    # The faults

    def lose_host(self):
        """A host that refuses connections."""
        port = free_port()
        host = self.site.module("host", "megaton_operate.origin_process", HOST, port)
        urls = [f"http://{HOST}:{port}/shop/0/{number}.png" for number in range(40)]
        self.site.submit("shop", urls[:5]).wait(60)
        host.kill()
        self.site.submit("shop", urls[5:], "--attempts", "30", wait=False)
        self.say(f"a host that refuses connections: {HOST}:{port}")
        self.site.reach("an open circuit breaker", 90, lambda: self.site.dashboard()["hosts"]["open_count"] == 1)
        self.host = f"{HOST}:{port}"

    def ask_host(self):
        """Asks for an image of the dead host: without requests its circuit breaker closes, and the queue is paused."""
        self.asked += 1
        ask(f"{self.site.url}/image/unsafe/rs:fit:64:64/plain/http://{self.host}/shop/0/image-{self.asked}.png")

    def kill_by_image(self):
        """An image whose job takes its worker with it, each time, as one that makes a codec crash."""
        url = f"http://127.0.1.7:{self.site.origin_port}/banner/60000/large.png"
        self.site.submit("banner", [{"id": "banner", "source": url}], wait=False)

        def is_dead():
            self.kill_owner("banner")
            causes = self.site.dashboard()["failures"]["causes"]
            return any(cause["code"] == "poison" for cause in causes)

        self.say("an image that kills the process of each worker that renders it: id banner")
        self.site.reach("a dead job with the code poison", 180, is_dead)
        # Their heartbeats are forgotten after a minute.
        self.site.reach("two living workers", 60, lambda: self.site.dashboard()["living_workers"] == 2)

    def fill_cache(self):
        """A cache that refuses entries."""
        redis = self.site.cache.client
        redis.send("CONFIG", "SET", "maxmemory", int(redis.info("memory")["used_memory"]) + (3 << 20))
        urls = [f"http://127.0.1.8:{self.site.origin_port}/photo/0/{number}.png" for number in range(30)]
        for size in ("480x480", "100x100", "8x8"):
            self.site.submit("photos", urls, "--size", size, "--format", "png").wait(60)
        # Nothing more is stored while the queue is paused; without this the last entry may have been too large.
        redis.send("CONFIG", "SET", "maxmemory", redis.info("memory")["used_memory"])
        self.say(f"a full cache: {self.site.cache.client.url.removeprefix('redis://')}")

    def pause(self):
        """A queue that was left paused, with jobs that wait."""
        code, _, errors = self.site.call("queue", "pause")
        if code != 0:
            raise Broken(f"megaton queue pause ended with {code}: {errors[-300:]}")
        self.site.submit("spring", self.site.urls("spring", 60, 0), wait=False)
        self.say("a queue that is paused, with 60 jobs")

    def crash_worker(self):
        """A worker that is gone without signing off; another one each time, since the first one is forgotten."""
        worker = self.add_worker()
        self.site.reach("the heartbeat of a worker", 30, lambda: self._is_known(worker))
        worker.kill()
        self.crashed = time.monotonic()

    def _is_known(self, worker):
        names = [one["name"] for one in self.site.dashboard()["workers"]]
        return any(int(name.split(":")[1]) == worker.pid for name in names)

    def keep(self, seconds, is_over=lambda: False):
        """Keeps the faults for a time: killed workers and failures of hosts would be forgotten."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not is_over():
            if time.monotonic() - self.crashed > CRASH_INTERVAL:
                self.crash_worker()
            self.ask_host()
            time.sleep(1)


def _check(site, result, host):
    """Each fault is in the data of the dashboard."""
    snapshot = site.dashboard()
    open_hosts = [one["host"] for one in snapshot["hosts"]["restricted"] if one["open"]]
    result.require("the dead host has an open circuit breaker", open_hosts == [host], str(open_hosts))
    causes = {cause["code"]: cause for cause in snapshot["failures"]["causes"]}
    first = next(iter(causes.values()), {"code": "none", "jobs": []})
    jobs = [job["id"] for job in first["jobs"]]
    result.require("the poison image is the first cause", (first["code"], jobs) == ("poison", ["banner"]),
                   f"{list(causes)}, {jobs}")
    silent = [one["name"] for one in snapshot["workers"] if not one["is_living"]]
    result.require("a worker is silent, and two live", silent and snapshot["living_workers"] in (2, 3),
                   f"{silent}, {snapshot['living_workers']} living")
    full = [one["address"] for one in snapshot["cache"]["servers"] if one["needs_room"]]
    result.require("the cache is full", len(full) == 1, str(snapshot["cache"]["servers"]))
    queue = snapshot["queue"]
    waiting = queue["ready"] + queue["intake"] + queue["staged"]
    result.require("the queue is paused, and jobs wait", queue["pauses"] == ["paused"] and waiting >= 60,
                   f"{queue['pauses']}, {waiting}")


def _is_silent(site):
    return any(not one["is_living"] for one in site.dashboard()["workers"])


def faults(site, result, options):
    # An operator who is to find the faults does not read them here.
    fleet = Fleet(site, result.note if options.check else lambda _: None)
    fleet.start()
    fleet.kill_by_image()
    fleet.lose_host()
    fleet.fill_cache()
    fleet.pause()
    fleet.crash_worker()
    print(f"{site.url}/", flush=True)
    if options.check:
        fleet.keep(60, lambda: _is_silent(site))
        # Hosts, failures and the cache are read every ten seconds.
        fleet.keep(12)
        _check(site, result, fleet.host)
    fleet.keep(options.minutes * 60)
    if options.check and options.minutes:
        fleet.keep(60, lambda: _is_silent(site))
        _check(site, result, fleet.host)


def main(arguments):
    made = parser("faults", "Runs a cluster with five faults and prints the URL of its dashboard, without a word about "
                  "the faults, which an operator finds by the page alone. Ctrl-C ends it.")
    made.add_argument("--minutes", type=float, metavar="N",
                      help="how long the cluster runs after the faults; 60 by default, with --check 0")
    made.add_argument("--check", action="store_true", help="name the faults, and look for each in /api/v1/dashboard")
    options = made.parse_args(arguments)
    if options.minutes is None:
        options.minutes = 0 if options.check else 60
    if options.minutes:
        positive(options.minutes)
    return execute("faults", faults, options, 900 + options.minutes * 60)
