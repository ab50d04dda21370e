"""Redis Cluster: a master is killed under load, and slots are moved meanwhile."""

import json
import statistics
import time

from megaton_pace.redis import Redis, RedisFault
from megaton_pace.redis_cluster import Move, RedisCluster
from megaton_pace.result import Broken

JOBS = 100_000
# Jobs of 8 KB.
LARGE_JOBS = 20_000
# Different sources. The first job of each fetches and renders, the others find its renditions in the cache.
SOURCES = 2000
PLACES = [32, 16, 8]
# Slots that are moved while a master is being replaced.
MOVED = 200
# Seconds that they take at least: from the kill beyond the election of a new master.
MOVING = 8
# Seconds in which a pace is measured, before and after.
WINDOW = 8
QUEUE = "default"


def redis_cluster(stage, result):
    """Redis Cluster: the queue's master killed while slots of the cache move, 100,000 jobs (60 s, at most 410 s)"""
    _switch(stage, result)


def redis_cluster_shards(stage, result):
    """Redis Cluster: three shards, a master killed while another's slot moves, 100,000 jobs (80 s, at most 410 s)"""
    stage.needs("queue", "reshard")
    _switch(stage, result, shards=3)


def redis_cluster_loss(stage, result):
    """Redis Cluster: as redis-cluster, but its replica never had the last jobs of the submitter (60 s)"""
    _switch(stage, result, loses=True)


def _switch(stage, result, shards=1, loses=False):
    stage.control = stage.cache = cluster = RedisCluster(stage)
    stage.start_origin()
    if shards > 1:
        code, output, errors = stage.call("queue", "reshard", shards)
        if code != 0:
            raise Broken(f"queue reshard: exit {code}: {output}{errors}")
    slots = [cluster.slot(_key(shard, "jobs")) for shard in range(shards)]
    masters = [cluster.owners(slot)[0] for slot in slots]
    if len(set(masters)) != shards:
        raise Broken(f"the shards of {QUEUE} are not on {shards} masters: slots {slots}")
    stage.start_fleet(PLACES)
    sources = stage.urls("cluster", SOURCES, 5)
    batch = stage.submit("cluster", [sources[number % SOURCES] for number in range(JOBS)], "--pack", 0)
    victim, replica = cluster.owners(slots[0])
    stage.reach("the first jobs", 150, lambda: batch.count > JOBS / 20)
    before = _paces(batch, 3 if loses else WINDOW)
    if loses:
        _fall_behind(stage, batch, victim, 0.8 * JOBS)
    others = [node for node in cluster.masters() if node is not victim]
    source = masters[1] if shards > 1 else others[0]
    target = next(node for node in others if node is not source)
    move = Move(cluster.slots_of(source, MOVED, slots[1] if shards > 1 else None), source, target, MOVING)
    behind = _offset(victim) - _offset(replica)
    victim.kill()
    killed = time.monotonic()
    move.start()
    promoted, first = _first_job(replica)
    seen = batch.count
    line = stage.reach("a line of the ledger", 60, lambda: batch.count > seen)
    result.note(f"promoted {promoted - killed:.2f} s after the kill, a job ended {first:.2f} s after that, a line of "
                f"the ledger {line:.2f} s later; the replica was {behind / 1e6:.2f} MB behind")
    result.bound("seconds from the promotion to the first job that ended", first, "<=", 2)
    time.sleep(1)
    after = _paces(batch, WINDOW)
    for text, paces in (("before", before), ("from a second after the switch", after)):
        result.note(f"lines in each second {text}: {' '.join(f'{pace:.0f}' for pace in paces)}")
    # Six servers share the processors with the fleet.
    result.bound("pace after the switch / before", statistics.mean(after) / statistics.mean(before), ">=", 0.6)
    move.finish(120)
    result.note(f"{len(move.slots)} slots with {move.keys} keys moved in {move.seconds:.1f} s, one of them in "
                f"{move.longest:.2f} s")
    result.require("keys were moved", move.keys > 0)
    if shards > 1:
        result.require("a shard's slot was moved", cluster.owners(slots[1])[0] is target)
    batch.wait(240)
    if loses:
        result.require("jobs were lost and submitted again", "submitted again" in batch.process.errors)
    batch.check_losses(result, JOBS)


def redis_cluster_missing(stage, result):
    """Redis Cluster: a master takes more acknowledged jobs with it than their submitter keeps, 64 MiB (40 s)"""
    stage.control = stage.cache = cluster = RedisCluster(stage)
    stage.start_origin()
    # Slower than the submitter.
    stage.start_fleet([8])
    padding = "?" + "x" * 8000
    batch = stage.submit("missing", [url + padding for url in stage.urls("missing", LARGE_JOBS, 50)], "--pack", 0)
    victim, replica = cluster.owners(cluster.slot(_key(0, "jobs")))
    # Beyond that age, ten times the node timeout and ten seconds, a replica would not take over.
    replica.client.send("CONFIG", "SET", "cluster-replica-validity-factor", 0)
    _fall_behind(stage, batch, victim, LARGE_JOBS / 10)
    behind = _offset(victim) - _offset(replica)
    victim.kill()
    stage.reach("a new master", 60, lambda: replica.client.send("ROLE")[0] == "master")
    start = time.monotonic()
    code = batch.process.wait(60)
    result.note(f"exit {code}, {time.monotonic() - start:.1f} s after the promotion; the replica was "
                f"{behind / 1e6:.0f} MB behind")
    result.require("exit 69", code == 69, f"exit {code}")
    batch.check_losses(result, LARGE_JOBS)
    next_batch = stage.submit("next", stage.urls("next", 100, 20))
    next_batch.wait(60)
    next_batch.check(result, 100, what="a batch after it")


def _paces(batch, seconds):
    """The pace in each second, up to the last tenth of the batch."""
    paces = [batch.pace(1)]
    while len(paces) < seconds and batch.count < 0.9 * JOBS:
        paces.append(batch.pace(1))
    return paces


def _fall_behind(stage, batch, master, pushed):
    """Takes its replica from a master, which goes on acknowledging, until all jobs have been pushed."""

    def show():
        code, output, _ = stage.call("batch", "show", batch.name)
        return json.loads(output) if code == 0 else {"state": "open", "submitted": 0}

    stage.reach("most jobs pushed", 120, lambda: show()["submitted"] >= pushed)
    master.client.send("ACL", "SETUSER", "default", "-psync", "-sync")
    master.client.send("CLIENT", "KILL", "TYPE", "replica")
    stage.reach("all jobs pushed", 60, lambda: show()["state"] != "open")


def _offset(node):
    return int(node.client.info("replication")["master_repl_offset"])


def _key(shard, name):
    tag = QUEUE if shard == 0 else f"{QUEUE}:{shard}"
    return f"megaton:{{{tag}}}:{name}"


def _first_job(replica):
    """The time at which a replica became a master, and the seconds until a job of shard 0 ended after that."""
    client = Redis(replica.client.host, replica.port)
    deadline, promoted, base = time.monotonic() + 60, None, None
    while time.monotonic() < deadline:
        try:
            if promoted is None:
                promoted = time.monotonic() if client.send("ROLE")[0] == "master" else None
            else:
                done = int(client.send("HGET", _key(0, "2:stat"), "done") or 0)
                base = done if base is None else base
                if done > base:
                    return promoted, time.monotonic() - promoted
        except RedisFault:
            pass  # CLUSTERDOWN, as long as the other nodes do not know.
        time.sleep(0.01)
    raise Broken("no job ended within 60 s of the kill" if promoted else "no replica was promoted within 60 s")


SCENARIOS = {
    "redis-cluster": redis_cluster,
    "redis-cluster-shards": redis_cluster_shards,
    "redis-cluster-loss": redis_cluster_loss,
    "redis-cluster-missing": redis_cluster_missing,
}
