"""Redis Cluster: a master is killed under load, and slots are moved meanwhile."""

import time

from megaton_pace.redis import Redis, RedisFault
from megaton_pace.redis_cluster import Move, RedisCluster
from megaton_pace.result import Broken

JOBS = 100_000
# Different sources. The first job of each fetches and renders, the others find its renditions in the cache.
SOURCES = 2000
PLACES = [32, 16, 8]
# Slots that are moved while a master is being replaced.
MOVED = 200
# Seconds that they take at least: from the kill beyond the election of a new master.
MOVING = 8
# Seconds in which a pace is measured.
WINDOW = 5
# Seconds that a replica is behind, in the scenario in which its master takes acknowledged writes with it.
BEHIND = 2
QUEUE = "default"


def redis_cluster(stage, result):
    """Redis Cluster: the queue's master killed while slots of the cache move, 100,000 jobs (60 s, at most 410 s)"""
    _switch(stage, result)


def redis_cluster_shards(stage, result):
    """Redis Cluster: three shards, a master killed while another's slot moves, 100,000 jobs (80 s, at most 410 s)"""
    stage.needs("queue", "reshard")
    _switch(stage, result, shards=3)


def redis_cluster_loss(stage, result):
    """Redis Cluster: as redis-cluster, but two seconds of acknowledged writes are lost (60 s, at most 410 s)"""
    _switch(stage, result, behind=BEHIND)


def _switch(stage, result, shards=1, behind=0):
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
    before = _before(stage, batch, behind)
    victim, replica = cluster.owners(slots[0])
    if behind:
        _cut_off(victim)
        time.sleep(behind)
    others = [node for node in cluster.masters() if node is not victim]
    source = masters[1] if shards > 1 else others[0]
    target = next(node for node in others if node is not source)
    move = Move(cluster.slots_of(source, MOVED, slots[1] if shards > 1 else None), source, target, MOVING)
    victim.kill()
    killed = time.monotonic()
    move.start()
    promoted, first = _first_job(replica)
    seen = batch.count
    line = stage.reach("a line of the ledger", 60, lambda: batch.count > seen)
    result.note(f"promoted {promoted - killed:.2f} s after the kill, a job ended {first:.2f} s after that, a line of the "
                f"ledger {line:.2f} s later")
    result.bound("seconds from the promotion to the first job that ended", first, "<=", 2)
    time.sleep(1)
    after = batch.pace(WINDOW)
    result.note(f"pace before {before:.0f}/s, after the switch {after:.0f}/s")
    result.bound("pace after the switch / before", after / before, ">=", 0.8)
    move.finish(120)
    result.note(f"{len(move.slots)} slots with {move.keys} keys moved in {move.seconds:.1f} s")
    result.require("keys were moved", move.keys > 0)
    batch.wait(240)
    batch.check_losses(result, JOBS)


def _before(stage, batch, behind):
    """The pace before the kill. If writes are to be lost, they are those of a submitter that is still pushing."""
    stage.reach("the first jobs", 150, lambda: batch.count > (0 if behind else JOBS / 10))
    return batch.pace(1 if behind else WINDOW)


def _cut_off(master):
    """Takes its replica from a master, which goes on acknowledging writes."""
    master.client.send("ACL", "SETUSER", "default", "-psync", "-sync")
    master.client.send("CLIENT", "KILL", "TYPE", "replica")


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
}
