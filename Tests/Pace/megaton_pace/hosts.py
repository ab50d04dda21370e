"""scripts/chaos hosts: several machines, of which one is cut off, healed, and one killed."""

import argparse
import json
import os
import sys
import tempfile
import time

from megaton_pace.ending import clean_up, verdict
from megaton_pace.network import Network
from megaton_pace.processes import free_port, listen_for_signals
from megaton_pace.redis import RedisFault, Server
from megaton_pace.result import Broken, Result
from megaton_pace.stage import Stage

# A lease and 5 seconds.
RECOVERY = 20
PLACES = 16
WORKERS = ("worker-1", "worker-2", "worker-3")
JOBS = 12_700


class Machines(Stage):
    """A stage whose processes run on machines of their own. Workers share no disk."""

    def __init__(self, program, directory, network):
        super().__init__(program, directory)
        self.network = network
        for name in ("redis-1", "redis-2", *WORKERS, "origin"):
            network.add(name)

    def start_all(self):
        hosts = self.network.hosts
        self.control = self._server("control", "redis-1", "appendonly yes")
        self.replica = self._server("replica", "redis-2", f"replicaof {hosts['redis-1'].address} {self.control.port}")
        self.cache = self._server("cache", "redis-2")
        self.origin_port = free_port()
        self._on("origin", sys.executable, "-m", "megaton_pace.origin", self.origin_port)
        for host in ("redis-1", "redis-2"):
            self._on(host, self.program, "coordinator", "--log-level", "warning")
        self.fleet = {name: self.work(name) for name in WORKERS}
        self.ready(len(WORKERS))

    def work(self, host):
        """Starts a worker on a machine."""
        return self._on(
            *(host, self.program, "worker", "--concurrency", PLACES, "--host-concurrency", 1000, "--allow-private"),
            *("--log-level", "warning", "--drain-timeout", 1),
        )

    def _server(self, name, host, *settings):
        machine = self.network.hosts[host]
        return Server(self.processes, name, *settings, address=machine.address, prefix=machine.prefix)

    def _on(self, host, *command):
        environment = self.environment if self.control and self.cache else {}
        path = {"PYTHONPATH": os.path.dirname(os.path.dirname(__file__)), "PYTHONDONTWRITEBYTECODE": "1"}
        prefix = self.network.hosts[host].prefix
        return self.processes.start(f"{host}-process", [*prefix, *map(str, command)], {**environment, **path})

    def sources(self):
        host = self.network.hosts["origin"].address
        # Jobs of a second and more would leave their places to others.
        delays = [self.random.randint(600, 900) for _ in range(JOBS)]
        return [f"http://{host}:{self.origin_port}/hosts/{delay}/{number}.png" for number, delay in enumerate(delays)]


def hosts(stage, result):
    """Two Redis machines, three of workers, an origin: cuts, heals and a kill (about 4 minutes)"""
    lack = stage.network.degrade("delay", "1ms", "0.3ms", "loss", "0.1%")
    result.note("latency 1 ms and loss 0.1 % on each cable, each way" if lack is None
                else f"no latency and no loss: this kernel has no netem ({lack})")
    stage.start_all()
    # Sources that take a second in packs have their outcomes every five seconds, and a window of twelve would count two
    # or three of these.
    batch = stage.submit("hosts", stage.sources(), "--pack", "0")
    stage.reach("the first outcomes", 60, lambda: batch.count > 3 * PLACES)
    # All places begin at once with jobs of about a second, and a window may count one wave more or less of them. After
    # this time they are out of step.
    time.sleep(15)
    before = batch.pace(24)
    _cut_worker(stage, result, batch, before)
    _kill_worker(stage, result, batch, before)
    for host in ("redis-2", "redis-1"):
        _cut_redis(stage, result, batch, before, host)
    _judge(stage, result, batch)


def _cut_worker(stage, result, batch, before):
    """A machine of workers is silent for twice a lease."""
    machine = stage.network.hosts["worker-3"]
    machine.cut()
    during = batch.pace(30)
    machine.heal()
    time.sleep(RECOVERY)
    after = batch.pace(12)
    result.note("worker-3 cut off for 30 s:")
    result.pace(before, during, after)
    result.bound("pace while one of three is cut off / before", during / before, ">=", 0.6)
    result.bound(f"pace {RECOVERY} s after the heal / before", after / before, ">=", 0.9)


def _kill_worker(stage, result, batch, before):
    """A machine dies: its process is killed and its cable is cut, so that nothing says so to the others."""
    machine = stage.network.hosts["worker-2"]
    machine.cut()
    stage.fleet["worker-2"].kill()
    time.sleep(RECOVERY)
    after = batch.pace(12)
    result.note(f"worker-2 killed: pace {after:.1f}/s of {before:.1f}/s from {RECOVERY} s on")
    share = after / (before * 2 / 3)
    result.bound(f"pace of the others {RECOVERY} s after the kill / their own before", share, ">=", 0.9)
    machine.heal()
    stage.fleet["worker-2"] = stage.work("worker-2")
    stage.ready(len(WORKERS))


def _cut_redis(stage, result, batch, before, host):
    """A Redis machine is silent for 10 s."""
    machine = stage.network.hosts[host]
    machine.cut()
    during = batch.pace(10)
    machine.heal()
    time.sleep(RECOVERY)
    after = batch.pace(12)
    what = {"redis-1": "control Redis", "redis-2": "cache Redis and replica"}[host]
    result.note(f"{what} cut off for 10 s:")
    result.pace(before, during, after)
    result.bound(f"pace {RECOVERY} s after the heal of the {what} / before", after / before, ">=", 0.9)


def _judge(stage, result, batch):
    """Every job once by ledger and counters; renditions are read back from the cache."""
    batch.wait(180)
    batch.check(result, JOBS)
    code, output, errors = stage.call("batch", "show", batch.name)
    counters = json.loads(output) if code == 0 else {}
    counted = all(counters.get(name) == JOBS for name in ("submitted", "done"))
    counted = counted and not any(counters.get(name) for name in ("failed", "cancelled", "deduplicated"))
    result.require("counters of the batch are exact", counted, output.replace("\n", " ") or errors)
    again = stage.submit("again", [outcome["source"] for outcome in batch.outcomes()])
    again.wait(120)
    first, second = _renditions(batch), _renditions(again)
    differing = sum(second.get(source) != digest for source, digest in first.items())
    result.require("renditions that are read back are the same", not differing, f"{differing} of {len(first)} differ")
    cached = sum(output["from"] != "rendered" for outcome in again.outcomes() for output in outcome["outputs"])
    result.bound("share of them from the cache", cached / JOBS, ">=", 0.8)
    link = stage.replica.client.info("replication").get("master_link_status")
    result.require("the replica is in sync again", link == "up", str(link))


def _renditions(batch):
    return {outcome["source"]: [output["sha256"] for output in outcome["outputs"]] for outcome in batch.outcomes()}


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/chaos hosts",
        description="Machines as network namespaces (root is needed): two with Redis, three with workers, one with an "
        "origin. One of the workers is cut off and healed, one is killed, both Redis machines are cut off and healed. "
        "Measures the pace, and counts every job. Takes four minutes, at most ten.",
        epilog="Exit codes: 0 all bounds hold, 1 a bound is broken, 77 not root, 130 ended by Ctrl-C.",
    )
    parser.add_argument("--program", metavar="FILE", required=True, help="the program megaton; by default it is built")
    parser.add_argument("--keep", action="store_true", help="keep the directory if a bound is broken")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        print("scripts/chaos hosts needs root for network namespaces: sudo ./scripts/chaos hosts", file=sys.stderr)
        return 77
    listen_for_signals(True)
    return run(options)


def run(options):
    """Runs the scenario, and removes the machines however it ends."""
    print(hosts.__doc__, flush=True)
    result, directory = Result("hosts"), tempfile.mkdtemp(prefix="megaton-pace-")
    start, stage, network, is_ended = time.monotonic(), None, None, False
    try:
        network = Network()
        stage = Machines(options.program, directory, network)
        hosts(stage, result)
    except (Broken, RedisFault) as fault:
        result.broken(str(fault))
    except KeyboardInterrupt:
        is_ended = True
    finally:
        started = [part for part in (stage and stage.end, network and network.remove) if part]
        clean_up(result, directory, options.keep, *started)
    return verdict(result, start, is_ended, "all processes and machines were removed")
