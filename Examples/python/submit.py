#!/usr/bin/env python3
"""Submits jobs to a cluster and reads their outcomes, with nothing but a Redis client (Debian: python3-redis).

    submit.py REDIS-URL OUTPUT SOURCE...

docs/cluster.md describes the keys and the fields. Each job names the number of jobs: the batch closes with the last of
them, and Redis forgets it, with outcomes that were not read, seven days later.
"""

import json
import sys
import uuid

import redis

QUEUE = "megaton:{default}:"
PREFIX = QUEUE + "2:"  # The keys of protocol 2; the intake is the same in each.
TIMEOUT = 60  # Seconds without an outcome.


def main(url, output, *sources):
    client = redis.Redis.from_url(url)
    batch = f"python-{uuid.uuid4().hex}"
    # Before the first job, so that every outcome is kept.
    client.hset(f"{PREFIX}batch:{batch}", "ledger", 1)
    jobs = [{"source": source, "output": output, "batch": batch, "batchSize": len(sources)} for source in sources]
    client.lpush(f"{QUEUE}jobs", *map(json.dumps, jobs))
    failed = 0
    for _ in sources:  # Each job has exactly one outcome.
        reply = client.blpop(f"{PREFIX}results:{batch}", timeout=TIMEOUT)
        if reply is None:
            sys.exit(f"there was no outcome for {TIMEOUT} s: is a worker running?")
        outcome = json.loads(reply[1])
        failed += outcome["status"] != "done"
        paths = [file["path"] for file in outcome["outputs"]]
        print(outcome["status"], outcome["source"], *paths, outcome.get("error", {}).get("message", ""))
    return 2 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        # The workers continue: `megaton batch cancel NAME` would end the batch.
        print("interrupted; the jobs that were pushed continue", file=sys.stderr)
        sys.exit(130)
