"""A Redis Cluster of three masters with a replica each, and slots that are moved."""

import threading
import time

from megaton_pace.processes import free_port
from megaton_pace.redis import Redis, RedisFault, Server
from megaton_pace.result import Broken

MASTERS = 3
# Milliseconds without an answer after which a node is taken for failed.
NODE_TIMEOUT = 2000
# Replies of a node while the cluster replaces a master, or while it takes up a change.
PASSING = ("CLUSTERDOWN", "TRYAGAIN", "LOADING", "IOERR")
# Keys that one MIGRATE moves.
KEYS = 100


class RedisCluster:
    """Six servers. Stands in the place of a ``Server`` as control and cache Redis of a stage."""

    def __init__(self, stage):
        self.nodes = [_node(stage, number) for number in range(2 * MASTERS)]
        addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
        create = ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"]
        process = stage.processes.start("redis-cli", create)
        if process.wait(60) != 0:
            raise Broken(f"redis-cli --cluster create: {process.output[-300:]}{process.errors[-300:]}")
        stage.reach("a cluster with all replicas in sync", 60, lambda: all(map(_is_ready, self.nodes)))

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def slot(self, key):
        return self._living().send("CLUSTER", "KEYSLOT", key)

    def owners(self, slot):
        """The master of a slot and its replicas."""
        for first, last, *nodes in self._living().send("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return [self._at(node[1]) for node in nodes]
        raise Broken(f"no master has slot {slot}")

    def masters(self):
        """A node that is a master of slots, for each range of slots."""
        return [self._at(nodes[0][1]) for _, _, *nodes in self._living().send("CLUSTER", "SLOTS")]

    def slots_of(self, master, count, middle=None):
        """At most `count` slots of a master, with this one in the middle."""
        for first, last, *nodes in self._living().send("CLUSTER", "SLOTS"):
            if nodes[0][1] == master.port:
                start = first if middle is None else max(first, min(middle - count // 2, last - count + 1))
                return range(start, min(start + count, last + 1))
        raise Broken(f"node {master.port} has no slots")

    def _at(self, port):
        return next(node for node in self.nodes if node.port == port)

    def _living(self):
        return next(node.client for node in self.nodes if node.process.code is None)


def _node(stage, number):
    port = bus = free_port()
    while bus == port:
        bus = free_port()
    return Server(
        *(stage.processes, f"node-{number}", "cluster-enabled yes", f"cluster-port {bus}"),
        *(f"cluster-node-timeout {NODE_TIMEOUT}", "appendonly no", "repl-diskless-sync-delay 0"),
        port=port,
    )


def _is_ready(node):
    """Whether a node knows all masters and their replicas, and is in sync."""
    state, replication = node.client.send("CLUSTER", "INFO"), node.client.info("replication")
    is_synced = replication.get("master_link_status") == "up" or "state=online" in replication.get("slave0", "")
    ranges = node.client.send("CLUSTER", "SLOTS")
    is_complete = len(ranges) == MASTERS and all(len(nodes) == 2 for _, _, *nodes in ranges)
    return "cluster_state:ok" in state and is_synced and is_complete


class Move(threading.Thread):
    """Moves slots with all their keys to another master, one after the other, while other commands run.

    `redis-cli --cluster reshard` sends the same commands, but refuses to begin while a master is being replaced.
    """

    def __init__(self, slots, source, target, seconds):
        """`seconds` is the least time for all slots."""
        super().__init__(daemon=True)
        self.slots, self.keys, self.fault = slots, 0, None
        # Of all slots, and the longest of one of them.
        self.seconds = self.longest = 0.0
        self._pause, self._port = seconds / len(slots), target.port
        # Connections of this thread.
        self._source = Redis(source.client.host, source.port, timeout=20)
        self._target = Redis(target.client.host, target.port, timeout=20)

    def run(self):
        start = time.monotonic()
        try:
            self._move()
        except Exception as fault:  # Reported by `finish`.
            self.fault = fault
        self.seconds = time.monotonic() - start

    def finish(self, seconds):
        """Returns when all slots have moved."""
        self.join(seconds)
        if self.is_alive() or self.fault:
            raise Broken(f"slots did not move: {self.fault or f'not done within {seconds} s'}")

    def _move(self):
        source, target = (client.send("CLUSTER", "MYID") for client in (self._source, self._target))
        start = time.monotonic()
        for number, slot in enumerate(self.slots):
            began = time.monotonic()
            self._target.send("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
            self._source.send("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
            while keys := self._source.send("CLUSTER", "GETKEYSINSLOT", slot, KEYS):
                self._migrate(keys)
                self.keys += len(keys)
            for client in (self._target, self._source):
                client.send("CLUSTER", "SETSLOT", slot, "NODE", target)
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(max(start + (number + 1) * self._pause - time.monotonic(), 0))

    def _migrate(self, keys):
        deadline = time.monotonic() + 60
        while True:
            try:
                self._source.send("MIGRATE", "127.0.0.1", self._port, "", 0, 10_000, "KEYS", *keys)
                return
            except RedisFault as fault:
                if time.monotonic() > deadline or not any(word in str(fault) for word in PASSING):
                    raise
                time.sleep(0.02)
