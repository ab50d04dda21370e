"""scripts/chaos upgrade: processes of an earlier version and of this one are exchanged one by one under load."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time

from megaton_pace.batch import Batch
from megaton_pace.ending import clean_up, verdict
from megaton_pace.processes import listen_for_signals
from megaton_pace.redis import RedisFault
from megaton_pace.result import Broken, Result
from megaton_pace.stage import Stage

QUEUE = "megaton:{default}:"
CURRENT = QUEUE + "2:"
# Seconds that all three parts may take together.
LIMIT = 900


class Exchange(Stage):
    """A stage with processes of two programs. It counts the jobs that were given to either."""

    def __init__(self, program, former, directory):
        super().__init__(program, directory)
        self.former = former
        self.given = 0

    # Processes

    def process(self, program, *arguments):
        name = "-".join(["former" if program == self.former else "current", *map(str, arguments[:2])])
        name = name.replace("/", "_")
        return self.processes.start(name, [program, *map(str, arguments)], self.environment)

    def coordinator_of(self, program):
        return self.process(program, "coordinator", "--log-level", "warning")

    def worker_of(self, program):
        return self.process(
            *(program, "worker", "--concurrency", 8, "--render-threads", 1, "--host-concurrency", 1000),
            *("--allow-private", "--log-level", "warning", "--drain-timeout", 10),
        )

    def service_of(self, program, kind):
        return self.worker_of(program) if kind == "worker" else self.coordinator_of(program)

    def stop(self, process):
        """Ends a process as a service manager does."""
        process.send(signal.SIGTERM)
        if process.wait(30) is None:
            raise Broken(f"{process.name} did not end within 30 s of SIGTERM")

    def ask_former(self, *arguments, seconds=90):
        """Runs a command of the former program; it must succeed."""
        process = self.process(self.former, *arguments)
        if process.wait(seconds) != 0:
            raise Broken(f"former megaton {' '.join(arguments)} ended with {process.code}: {process.errors[-300:]}")
        return process.output

    def former_ready(self, workers):
        """Returns once a coordinator of the former program leads, beside this many workers of it."""

        def check():
            leader = self.redis("GET", QUEUE + "leader")
            return leader and not leader.startswith(("protocol-", "reserve:")) and self.living() >= workers

        self.reach(f"a leader and {workers} workers of the former program", 60, check)

    def coordinator_leads(self):
        """Whether a coordinator of this version leads, not the fallback of a worker."""
        return not (self.redis("GET", CURRENT + "leader") or "reserve:").startswith("reserve:")

    def living(self):
        return self.redis("ZCARD", QUEUE + "workers")

    def redis(self, *arguments):
        return self.control.client.send(*arguments)

    # Jobs

    def give(self, program, name, count, milliseconds, wait=True):
        """Submits a batch with one of the programs."""
        self.given += count
        path = self.write(name + ".txt", self.urls(name, count, milliseconds))
        ledger = os.path.join(self.directory, name + "-ledger.jsonl")
        waiting = ["--wait", "--ledger", ledger] if wait else []
        return Batch(name, self.process(program, "submit", path, "--batch", name, "--size", "8x8", *waiting), ledger)

    def push(self, group, count):
        """Pushes jobs to the public list, as clients without the program do."""
        self.given += count
        renditions = [{"name": "small", "width": 8, "height": 8}]
        sources = self.urls(group, count, (20, 80))
        jobs = [
            json.dumps({"id": f"{group}-{number}", "source": source, "renditions": renditions})
            for number, source in enumerate(sources)
        ]
        self.redis("LPUSH", QUEUE + "jobs", *jobs)

    def ended(self, field="done"):
        """The jobs that ended so, by the counters of both protocols."""
        return sum(int(self.redis("HGET", prefix + "stat", field) or 0) for prefix in (QUEUE, CURRENT))

    def check_counts(self, result, part):
        """All jobs that were given were done once."""
        try:
            self.reach("the end of all jobs", 120, lambda: self.ended() >= self.given)
        except Broken:
            pass  # The counters say what is missing.
        time.sleep(2)
        counts = {field: self.ended(field) for field in ("done", "failed", "cancelled")}
        exact = counts == {"done": self.given, "failed": 0, "cancelled": 0}
        result.require(f"{part}: each of {self.given} jobs done once, by all counters", exact, str(counts))


def _refuse(stage, result, kind, situation):
    """A process of this version does not start, says why, and changes nothing."""
    process = stage.service_of(stage.program, kind)
    code = process.wait(30)
    if code is None:
        stage.stop(process)
    holds = code == 69 and "queue drain --wait" in process.errors
    what = f"{kind} refused {situation}, exit 69 with the way to drain"
    result.require(what, holds, f"exit {code}: {process.errors[-300:]}")


def upgrade(stage, result):
    """Each process of the former version is replaced under load, then all after a drain"""
    former = stage.former
    fleet = {"worker": stage.worker_of(former), "coordinator": stage.coordinator_of(former)}
    other = stage.worker_of(former)
    stage.former_ready(2)
    batch = stage.give(former, "load", 3000, (100, 300))
    stage.push("public", 100)
    stage.reach("the first outcomes", 60, lambda: batch.count > 50)
    for kind in fleet:
        _refuse(stage, result, kind, "beside the former fleet")
        stage.stop(fleet[kind])
        _refuse(stage, result, kind, f"in place of the former {kind}")
        fleet[kind] = stage.service_of(former, kind)
    stage.former_ready(2)
    for process in (*fleet.values(), other):
        stage.stop(process)
    for kind in fleet:
        _refuse(stage, result, kind, "beside jobs without a process")
    fleet = [stage.coordinator_of(former), stage.worker_of(former), stage.worker_of(former)]
    batch.wait(300)
    batch.check(result, 3000)
    stage.ask_former("queue", "drain", "--wait", "--timeout", "60")
    stage.push("meanwhile", 100)
    time.sleep(2)
    waiting = stage.redis("LLEN", QUEUE + "jobs")
    result.require("jobs that are pushed to a drained queue wait", waiting == 100, f"{waiting} of 100")
    for process in fleet:
        stage.stop(process)
    stage.fleet = {"coordinator": stage.coordinator_of(stage.program), "worker": stage.worker_of(stage.program)}
    stage.ready(1)
    stage.check_counts(result, "upgrade")


def late(stage, result):
    """Processes of the former version start beside those of this one, whose coordinator restarts"""
    epoch = stage.redis("GET", QUEUE + "epoch")
    batch = stage.give(stage.program, "late", 1500, (100, 300))
    stage.reach("the first outcomes", 60, lambda: batch.count > 20)
    stage.ask_former("queue", "resume")
    strays = [stage.coordinator_of(stage.former), stage.worker_of(stage.former)]
    stage.push("beside", 100)
    time.sleep(8)
    stage.stop(stage.fleet["coordinator"])
    stage.push("between", 100)
    # A worker of this version takes the lead; those of the former one must not.
    time.sleep(12)
    stage.fleet["coordinator"] = stage.coordinator_of(stage.program)
    stage.reach("the lead of the new coordinator", 60, stage.coordinator_leads)
    stage.stop(stage.fleet["worker"])
    stage.fleet["worker"] = stage.worker_of(stage.program)
    stage.ready(1)
    batch.wait(180)
    batch.check(result, 1500)
    leads = stage.redis("GET", QUEUE + "epoch")
    result.require("no process of the former version has led", leads == epoch, f"epoch {epoch}, then {leads}")
    lost = stage.give(stage.former, "left", 10, 20, wait=False)
    lost.process.wait(30)
    waiting = stage.redis("LLEN", QUEUE + "jobs:left")
    result.require("a batch of a former client waits", waiting == 10, f"{waiting} of 10")
    warned = any("jobs of batches wait" in part for part in stage.status().get("protocol_1", []))
    result.require("status shows it", warned, json.dumps(stage.status().get("protocol_1")))
    for process in strays:
        stage.stop(process)
    stage.redis("DEL", QUEUE + "jobs:left")
    stage.given -= 10
    stage.check_counts(result, "former processes beside")


def downgrade(stage, result):
    """All processes go back to the former version in the middle of a batch, and forward again"""
    batch = stage.give(stage.program, "back", 600, (200, 400), wait=False)
    batch.process.wait(60)
    stage.reach("the first outcomes of the batch", 60, lambda: stage.requests("back") > 50)
    for process in stage.fleet.values():
        stage.stop(process)
    before = stage.ended()
    fleet = [stage.coordinator_of(stage.former), stage.worker_of(stage.former)]
    stage.former_ready(1)
    stage.push("down", 100)
    stage.reach("the jobs of the former fleet", 60, lambda: stage.ended() >= before + 100)
    _refuse(stage, result, "worker", "after the downgrade")
    stage.ask_former("queue", "drain", "--wait", "--timeout", "60")
    for process in fleet:
        stage.stop(process)
    stage.fleet = {"coordinator": stage.coordinator_of(stage.program), "worker": stage.worker_of(stage.program)}
    stage.ready(1)
    code, _, errors = stage.call("batch", "wait", batch.name, "--timeout", "150", seconds=160)
    result.require("the batch that stayed behind ends after the upgrade", code == 0, f"exit {code}: {errors[-300:]}")
    stage.check_counts(result, "downgrade")


PARTS = (upgrade, late, downgrade)


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/chaos upgrade",
        description="Exchanges workers and coordinators of an earlier version and of this one under load, both ways, "
        "and counts every job: it is done once, or the process refuses to start and says how to drain. Takes about "
        "five minutes, at most fifteen.",
        epilog="Exit codes: 0 all hold, 1 one is broken, 64 wrong options, 130 ended by Ctrl-C.",
    )
    parser.add_argument("--from", dest="former", metavar="FILE", required=True,
                        help="the program megaton of the earlier version, 0.1 or 0.2")
    parser.add_argument("--program", metavar="FILE", required=True, help="the program megaton; by default it is built")
    parser.add_argument("--keep", action="store_true", help="keep the directory if a check is broken")
    options = parser.parse_args(arguments)
    for program in (options.former, options.program):
        if not os.access(program, os.X_OK):
            print(f"{program} is not a program", file=sys.stderr)
            return 64
    listen_for_signals(True)
    return run(options)


def _too_long(*_):
    raise Broken(f"it was not over after {LIMIT} s")


def run(options):
    """Runs the parts one after the other on the same Redis, and ends all that they started."""
    result, directory = Result("upgrade"), tempfile.mkdtemp(prefix="megaton-upgrade-")
    start, is_ended = time.monotonic(), False
    former, program = (os.path.abspath(path) for path in (options.former, options.program))
    stage = Exchange(program, former, directory)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT)
    try:
        stage.start_servers()
        stage.start_origin()
        for part in PARTS:
            print(f"{part.__name__}: {part.__doc__}", flush=True)
            part(stage, result)
    except (Broken, RedisFault) as fault:
        result.broken(str(fault))
    except KeyboardInterrupt:
        is_ended = True
    finally:
        clean_up(result, directory, options.keep, stage.end)
    return verdict(result, start, is_ended)
