"""The environment of a scenario: Redis, a cache, an origin, coordinators, workers and submitters."""

import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.request

from megaton_pace.batch import Batch
from megaton_pace.latency import percentile
from megaton_pace.processes import Processes, free_port
from megaton_pace.redis import Server
from megaton_pace.result import Broken, NotBuilt

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# Addresses of this machine's loopback network, each a host of its own for the limits of hosts.
HOSTS = [f"127.0.1.{number}" for number in range(1, 33)]


class Stage:
    """Everything that a scenario starts, and what it asks of it."""

    def __init__(self, program, directory, seed=1):
        self.program, self.directory = program, directory
        self.processes = Processes(directory)
        self.random = random.Random(seed)
        self.control = self.cache = self.origin_port = None
        self.workers = []
        self.outputs = os.path.join(directory, "out")
        os.makedirs(self.outputs, exist_ok=True)
        self._batches = 0

    def end(self):
        stuck = self.processes.end()
        if stuck:
            raise Broken(f"did not end within 20 s of SIGTERM: {', '.join(stuck)}")

    # Starting

    def start(self, places, arguments=(), control=(), cache=(), environment=None):
        """Starts servers, an origin, a coordinator and a worker for each number of places."""
        self.start_servers(control, cache, environment)
        self.start_origin()
        self.start_fleet(places, arguments)

    def start_servers(self, control=(), cache=(), environment=None):
        self.control = Server(self.processes, "control", *control, environment=environment)
        self.cache = Server(self.processes, "cache", *cache)

    def start_origin(self):
        self.origin_port = free_port()
        self.python("origin", "megaton_pace.origin", self.origin_port)
        self.reach("an answer of the origin", 20, lambda: self.origin() is not None)

    def start_fleet(self, places, arguments=()):
        self.coordinator = self.launch("coordinator", "coordinator", "--log-level", "warning")
        for number in places:
            self.start_worker(number, arguments)
        self.ready(len(places))

    def start_worker(self, places, arguments=()):
        usual = [] if "--host-concurrency" in arguments else ["--host-concurrency", 1000]
        worker = self.launch(
            f"worker-{places}",
            *("worker", "--concurrency", places, "--render-threads", 1, *usual),
            *("--allow-private", "--allow-root", self.outputs, "--log-level", "warning", "--drain-timeout", 1),
            *arguments,
        )
        self.workers.append(worker)
        return worker

    def ready(self, workers):
        """Returns once a coordinator leads and this many workers are there."""

        def check():
            status = self.status()
            return status.get("leader") and len(status.get("workers", [])) >= workers

        self.reach(f"a leader and {workers} workers", 60, check)

    def python(self, name, module, *arguments, is_urgent=False):
        command = [sys.executable, "-m", module, *map(str, arguments)]
        path = os.path.join(ROOT, "Tests", "Pace")
        environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        return self.processes.start(name, command, environment, is_urgent)

    @property
    def environment(self):
        return {"MEGATON_REDIS": self.control.url, "MEGATON_CACHE_REDIS": self.cache.url}

    def launch(self, name, *arguments, is_urgent=False):
        """Starts a command of the program."""
        return self.processes.start(name, [self.program, *map(str, arguments)], self.environment, is_urgent)

    def call(self, *arguments, seconds=60):
        """Runs a command of the program. Returns its exit code, output and errors; the code is None after the time."""
        process = self.launch(arguments[0], *arguments)
        code = process.wait(seconds)
        if code is None:
            process.kill()
        return code, process.output, process.errors

    def status(self):
        code, output, _ = self.call("status", "--json")
        return json.loads(output) if code == 0 else {}

    def needs(self, command, word):
        """Raises ``NotBuilt`` if no line of a command's help begins with a subcommand or an option."""
        run = subprocess.run([self.program, *command.split(), "--help"], capture_output=True, text=True, check=False)
        if not any(line.split()[:1] == [word] for line in run.stdout.splitlines()):
            raise NotBuilt(f"{command} {word}")

    # Waiting

    def reach(self, what, seconds, condition):
        """Polls until a condition holds, and returns the seconds that it took."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > seconds:
                raise Broken(f"{what} was not reached within {seconds} s")
            time.sleep(0.05)
        return time.monotonic() - start

    # Jobs

    def urls(self, group, count, milliseconds, hosts=None):
        """Different sources, spread over hosts.

        Each is answered after a fixed time, a time between two limits, or the time that a function gives.
        """
        hosts = hosts or HOSTS
        found = []
        for number in range(count):
            if callable(milliseconds):
                delay = milliseconds()
            else:
                delay = milliseconds if isinstance(milliseconds, int) else self.random.randint(*milliseconds)
            host = hosts[number % len(hosts)]
            found.append(f"http://{host}:{self.origin_port}/{group}/{delay}/{number}.png")
        return found

    def write(self, name, lines):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        return path

    def submit(self, name, jobs, *arguments, wait=True, is_urgent=False):
        """Starts a submitter. Jobs are sources, or dictionaries with the fields of jobs."""
        self._batches += 1
        name = f"{name}-{self._batches}"
        if jobs and isinstance(jobs[0], dict):
            path = self.write(name + ".jsonl", (json.dumps(job) for job in jobs))
        else:
            path = self.write(name + ".txt", jobs)
        ledger = os.path.join(self.directory, name + "-ledger.jsonl")
        waiting = ["--wait", "--ledger", ledger] if wait else []
        command = ["submit", path, "--quiet", "--batch", name, "--size", "8x8", *waiting, *arguments]
        return Batch(name, self.launch("submit-" + name, *command, is_urgent=is_urgent), ledger)

    def seconds_of(self, name, jobs, *arguments, limit=75, is_urgent=False):
        """Seconds from the start of a submitter to its end; infinite beyond the limit. The batch is cancelled then."""
        batch = self.submit(name, jobs, *arguments, is_urgent=is_urgent)
        code, seconds = batch.wait(limit)
        if code is None:
            batch.process.kill()
            self.call("batch", "cancel", batch.name)
            return float("inf")
        if code != 0:
            raise Broken(f"batch {batch.name} ended with {code}: {batch.process.errors[-300:]}")
        return seconds

    def median_of(self, times, measure):
        """The median of several measurements; stops at the first that is infinite."""
        found = []
        for number in range(times):
            found.append(measure(number))
            if found[-1] == float("inf"):
                return found[-1]
        return statistics.median(found)

    # The origin

    def origin(self):
        """The counters of each group; None if the origin does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.origin_port}/_stats", timeout=5) as response:
                return json.load(response)["groups"]
        except OSError:
            return None

    def requests(self, group):
        return ((self.origin() or {}).get(group) or {"requests": 0})["requests"]

    def running(self):
        """The number of requests that wait for their answers."""
        return sum(group["requests"] - group["done"] for group in (self.origin() or {}).values())

    def occupancy(self, places, seconds):
        """The share of places whose jobs wait for an answer of the origin, measured for this time."""
        samples, deadline = [], time.monotonic() + seconds
        while time.monotonic() < deadline:
            samples.append(self.running() / places)
            time.sleep(0.2)
        return statistics.mean(samples)

    # Latency of Redis

    def watch_latency(self):
        """Starts PINGs to the control Redis and to an idle Redis beside it, which shows how busy the machine is."""
        idle = Server(self.processes, "idle")
        file = os.path.join(self.directory, "latency.json")
        addresses = [f"127.0.0.1:{server.port}" for server in (self.control, idle)]
        self.control.client.send("SLOWLOG", "RESET")
        self.control.client.send("CONFIG", "RESETSTAT")
        return self.python("latency", "megaton_pace.latency", file, *addresses, is_urgent=True), file

    def judge_latency(self, result, watch):
        """PING below 25 ms and scripts of at most 10 ms, both at p99.9."""
        process, file = watch
        process.send(15)
        if process.wait(70) is None:
            raise Broken("the PINGs did not end")
        with open(file, encoding="utf-8") as values:
            control, idle = json.load(values)
        (late, reference) = (percentile(values, 0.999) for values in (control, idle))
        result.note(f"PING p99.9: control {late:.1f} ms, worst {max(control):.1f} ms; idle Redis {reference:.1f} ms")
        # A machine whose idle Redis is late measures itself.
        result.bound("PING p99.9 in ms above that of an idle Redis", late - reference, "<", 25)
        slow = self.control.client.slow_scripts(10)
        scripts = sum(self.control.client.calls().get(name, 0) for name in ("evalsha", "eval"))
        result.note(f"{len(slow)} of {scripts} scripts above 10 ms, the longest {max(slow, default=0):.0f} ms")
        result.bound("share of scripts above 10 ms", len(slow) / max(scripts, 1), "<=", 0.001)
