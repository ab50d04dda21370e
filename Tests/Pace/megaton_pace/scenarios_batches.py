"""D4, D7, D8 and D9: ids, ledgers, and batches that are forgotten."""

import glob
import json
import os
import re
import struct
import subprocess
import time

from megaton_pace.redis import RedisFault, Server
from megaton_pace.result import Broken, NotBuilt
from megaton_pace.stage import ROOT

# Ended batches of each age.
BATCHES = 400
# A pack has sources of one host.
PACKED_HOST = ["127.0.0.9"]
# Commands that list the members or fields of a key; None is the place of the key.
MEMBERS = {"zset": ("ZRANGE", None, "0", "-1"), "hash": ("HKEYS", None), "set": ("SMEMBERS", None)}


def ids(stage, result):
    """D4: two lists with the ids 1 to 300 and different sources, submitted at once (10 s)"""
    stage.start([16, 4])
    folders = [os.path.join(stage.outputs, name) for name in ("first", "second")]
    batches = []
    for folder in folders:
        sources = stage.urls(os.path.basename(folder), 300, 100)
        jobs = [{"id": str(number + 1), "source": source} for number, source in enumerate(sources)]
        batches.append(stage.submit(os.path.basename(folder), jobs, "--output", folder))
    for batch, folder in zip(batches, folders):
        batch.wait(60)
        batch.check(result, 300)
        files = sum(len(names) for _, _, names in os.walk(folder))
        result.bound(f"files of batch {batch.name}", files, "=", 300)
    source, other = stage.urls("conflict", 2, 300)
    batch = stage.submit("conflict", [{"id": "a", "source": source}, {"id": "a", "source": other}])
    code, _ = batch.wait(30)
    codes = [outcome.get("error", {}).get("code") for outcome in batch.outcomes()]
    result.require("an id with two contents: id_conflict, exit 2", code == 2 and "id_conflict" in codes,
                   f"exit {code}, {codes}")


def mixed_packs(stage, result):
    """Packs of one batch beside the single jobs of another that fill all places (30 s, at most 120 s)"""
    stage.start([32, 16])
    single = stage.submit("single", stage.urls("single", 4000, 1000), "--pack", "0")
    stage.reach("single jobs in all places", 30, lambda: single.count > 100)
    alone = single.pace(4)
    packed = stage.submit("packed", stage.urls("packed", 4000, 1000, PACKED_HOST), "--pack", "256")
    stage.reach("the first source of a pack", 60, lambda: packed.count > 0)
    time.sleep(8)
    counts = single.count, packed.count
    time.sleep(10)
    others, sources = (batch.count - before for batch, before in zip((single, packed), counts))
    result.note(f"single jobs alone {alone:.1f}/s; beside packs {others / 10:.1f}/s and {sources / 10:.1f} sources/s")
    result.bound("share of the packs, of two batches of the same weight", sources / max(1, sources + others), ">=", 0.2)
    result.bound("share of the single jobs", others / max(1, sources + others), ">=", 0.2)
    result.bound("pace of both / of single jobs alone", (sources + others) / 10 / alone, ">=", 0.8)
    for batch in (single, packed):
        stage.call("batch", "cancel", batch.name)


def pack_tail(stage, result):
    """Packs on an uneven fleet: the last ones must not stay on the smallest worker (25 s, at most 150 s)"""
    stage.start([32, 1, 1])
    single = stage.seconds_of("single", stage.urls("tail", 512, 500, PACKED_HOST), "--pack", "0")
    packed = stage.seconds_of("packed", stage.urls("tails", 512, 500, PACKED_HOST), "--pack", "64", limit=120)
    result.note(f"512 sources of 0.5 s: {single:.1f} s as single jobs, {packed:.1f} s in packs of 64")
    result.bound("time in packs / as single jobs", packed / single, "<=", 1.6)


def failover(stage, result):
    """D7: a ledger through a failover that lost two seconds (45 s, at most 200 s)"""
    jobs = 6000
    stage.start_servers()
    stage.start_origin()
    master = stage.control
    replica = Server(stage.processes, "replica", f"replicaof 127.0.0.1 {master.port}")
    stage.reach("a replica in sync", 20, lambda: replica.client.info("replication").get("master_link_status") == "up")
    stage.start_fleet([16, 16, 4, 1])
    batch = stage.submit("failover", stage.urls("failover", jobs, 80))
    stage.reach("the first quarter", 90, lambda: batch.count > jobs / 4)
    before = batch.pace(3)
    replica.client.send("REPLICAOF", "NO", "ONE")
    time.sleep(2)
    master.kill()
    lost = batch.count
    replica.client.send("CONFIG", "SET", "port", master.port)
    time.sleep(2)
    during = batch.pace(3)
    batch.wait(90)
    result.note(f"pace before {before:.1f}/s, from 2 s after the failover {during:.1f}/s; {lost} outcomes at that time")
    result.bound("pace after the failover / before", during / before, ">=", 0.8)
    batch.check_losses(result, jobs)


def results(stage, result):
    """D8: a submitter killed while it waits, and one killed while it pushes (10 s, at most 200 s)"""
    stage.start([16])
    jobs = 1000
    batch = stage.submit("killed", stage.urls("killed", jobs, 100))
    stage.reach("a third of the ledger", 60, lambda: batch.count > jobs / 3)
    batch.process.kill()
    _continue(stage, result, batch, jobs)
    stage.call("batch", "cancel", batch.name)
    _close(stage, result)


def _continue(stage, result, batch, jobs):
    try:
        stage.needs("batch", "results")
    except NotBuilt as lack:
        result.not_built(str(lack))
        return
    code, _, errors = stage.call("batch", "results", batch.name, "--follow", "--ledger", batch.ledger, seconds=60)
    ids_seen = [outcome["id"] for outcome in batch.outcomes()]
    holds = code == 0 and len(ids_seen) == jobs and len(set(ids_seen)) == jobs
    result.require(f"batch results continues the ledger: each of {jobs} jobs once, exit 0", holds,
                   f"exit {code}, {len(ids_seen)} lines, {len(set(ids_seen))} different. {errors[-200:]}")


def _close(stage, result):
    """The list comes through a pipe that stays open, so that the submitter is still pushing when it is killed."""
    pipe = os.path.join(stage.directory, "pipe")
    os.mkfifo(pipe)
    open_batch = stage.launch("submit-open", "submit", "--jobs-from", pipe, "--batch", "open", "--size", "8x8")
    writer = os.open(pipe, os.O_WRONLY)
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        for source in stage.urls("open", 2000, 10):
            file.write(json.dumps({"source": source}) + "\n")
        file.flush()
        stage.reach("some jobs of the open batch", 60, lambda: stage.requests("open") > 0)
        open_batch.kill()
    try:
        stage.needs("batch", "close")
    except NotBuilt as lack:
        result.not_built(str(lack))
        return
    code, _, errors = stage.call("batch", "close", "open")
    result.require("batch close: exit 0", code == 0, f"exit {code}: {errors[-200:]}")
    code, _, errors = stage.call("batch", "wait", "open", "--timeout", "40")
    result.require("batch wait of the closed batch ends with 0", code == 0, f"exit {code}: {errors[-200:]}")


def forgetting(stage, result):
    """D9: 400 batches of eight days ago and 400 of three days ago, by the clock of Redis (110 s, at most 250 s)"""
    clock = os.path.join(stage.directory, "clock")
    _set_clock(clock, days=0)
    stage.start([16], control=["appendonly no"], environment=_stepping_clock(stage, clock))
    baseline = _memory(stage)
    _end_batches(stage, "old")
    _set_clock(clock, days=5)
    _end_batches(stage, "young")
    peak = _memory(stage)
    if _kept(stage, "old") != BATCHES:
        raise Broken(f"{_kept(stage, 'old')} of {BATCHES} batches were found in Redis before the clock was set")
    _set_clock(clock, days=8)
    start = time.monotonic()
    while (left := _kept(stage, "old")) and time.monotonic() - start < 60:
        time.sleep(2)
    seconds = time.monotonic() - start
    result.note(f"{BATCHES - left} of {BATCHES} forgotten in {seconds:.0f} s; "
                f"memory in bytes {baseline}, {peak}, now {_memory(stage)}")
    result.bound("batches forgotten each minute", (BATCHES - left) / seconds * 60, ">", 100)
    young = _kept(stage, "young")
    result.require("no batch of three days ago is forgotten", young == BATCHES, f"{young} of {BATCHES} are there")
    new = stage.submit("new", stage.urls("new", 20, 10))
    new.wait(30)
    new.check(result, 20, what="a batch after the step of the clock")


def _end_batches(stage, name):
    """Submits batches of one job each, four at a time, and returns when they have ended."""
    done = stage.status().get("done", 0)
    for start in range(0, BATCHES, 4):
        group = [stage.submit(name, stage.urls(f"{name}-{start + index}", 1, 1), wait=False) for index in range(4)]
        for batch in group:
            batch.wait(30)
    stage.reach("all batches ended", 60, lambda: stage.status().get("done", 0) >= done + BATCHES)


def _kept(stage, name):
    """The number of these batches that any key of the control Redis names, or has as a member or field."""
    client, kept, pattern = stage.control.client, set(), re.compile(name + r"-\d+\b")
    keys = client.send("KEYS", "megaton:*")
    kinds = client.pipeline([("TYPE", key) for key in keys]) if keys else []
    for key, kind in zip(keys, kinds):
        kept.update(pattern.findall(key))
        if kind in MEMBERS:
            try:
                kept.update(pattern.findall(" ".join(client.send(*(word or key for word in MEMBERS[kind])))))
            except RedisFault:
                # It expired meanwhile.
                continue
    return len(kept)


def _memory(stage):
    return int(stage.control.client.info("memory")["used_memory"])


def _stepping_clock(stage, clock):
    """The environment of a server whose clock differs by the milliseconds in a file."""
    sources = glob.glob(os.path.join(ROOT, "Tests", "CFaults", "clock.c"))
    library = os.path.join(stage.directory, "clock.so")
    for compiler in ("cc", "clang"):
        try:
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, *sources], check=True)
            return {"LD_PRELOAD": library, "MEGATON_CLOCK": clock}
        except FileNotFoundError:
            continue
    raise Broken("neither cc nor clang is there to build Tests/CFaults/clock.c")


def _set_clock(file, days):
    # Written in place: the server has the file mapped.
    mode = "r+b" if os.path.exists(file) else "wb"
    with open(file, mode) as clock:
        clock.write(struct.pack("=q", days * 86_400_000))


SCENARIOS = {
    "ids": ids,
    "mixed-packs": mixed_packs,
    "pack-tail": pack_tail,
    "failover": failover,
    "results": results,
    "forgetting": forgetting,
}
