"""Checks the models beside this file with SPIN; `scripts/model` says how.

Each run searches all states of a model in one setting. A rule that a mutation breaks on purpose must fail.
"""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
BUILD = FOLDER.parent.parent / ".build" / "models"
# A run takes at most about a minute; a loaded machine is slower.
TIMEOUT = 900
MEGABYTES = 3000

# Rule, model, settings, and whether the rule is about progress: "ends" in the model, under weak fairness.
SMOKE = [
    ("a job is in one state and counted once, up to admission", "intake", "JOBS=2 FAULTS=1", False),
    ("a job is in one state and counted once, after admission", "leases", "JOBS=2 FAULTS=1 REFUSALS=1", False),
    ("no ready job while a place is free, and no request above a rate", "waking", "DRAINS=1 RATE=2 EARLY", False),
    ("a failing host gets one probe at a time", "waking", "CIRCUIT CONCURRENCY=2 EARLY", False),
    ("each source of a pack ends once", "packs", "FAULTS=1", False),
]
RULES = [
    ("a job is in one state and counted once, up to admission", "intake", "JOBS=2 FAULTS=2", False),
    ("the same with three jobs", "intake", "JOBS=3 FAULTS=1", False),
    ("the same with a return to an earlier state", "intake", "JOBS=2 FAULTS=1 ROLLBACK", False),
    ("a batch ends when all of its jobs have ended", "intake", "JOBS=3 FAULTS=1", True),
    ("a job is in one state and counted once, after admission", "leases", "JOBS=2 FAULTS=2 REFUSALS=1", False),
    ("the same with three jobs", "leases", "JOBS=3 FAULTS=1 REFUSALS=1", False),
    ("every job ends", "leases", "JOBS=2 FAULTS=1 REFUSALS=1", True),
    ("a cancelled job does not wait for its host", "leases", "JOBS=2 FAULTS=1 REFUSALS=1 DEAD_HOST", True),
    ("each source of a pack ends once", "packs", "", False),
    ("every source of a pack ends", "packs", "", True),
    ("each job is in the ledger, once, if Redis returns to an earlier state", "outcomes", "RETURNS=2", False),
    ("the ledger is completed", "outcomes", "RETURNS=1", True),
    ("no ready job while a place is free", "waking", "", False),
    ("the same while a worker drains", "waking", "DRAINS=1", False),
    ("one idle interval after a death or a lost reply", "waking", "FAULTS=1", False),
    ("every job ends after a death or a lost reply", "waking", "FAULTS=1 EARLY", True),
    ("a slow host gets no more than its rate", "waking", "RATE=2 CONCURRENCY=2 FAULTS=1", False),
    ("every job of a slow host ends", "waking", "RATE=2 CONCURRENCY=2", True),
    ("a failing host gets one probe at a time", "waking", "CIRCUIT CONCURRENCY=2", False),
    ("the same after a death or a lost reply", "waking", "CIRCUIT CONCURRENCY=2 FAULTS=1 EARLY", False),
    ("every job of a failing host ends", "waking", "CIRCUIT CONCURRENCY=2 EARLY", True),
]
# What is left out or done wrong, model, settings, whether it shows as a lack of progress.
MUTATIONS = [
    ("`stage` and `admit` do not check the leader", "intake", "JOBS=2 FAULTS=1 NO_LEADER_CHECK", True),
    ("they do not check the round: a late call", "intake", "JOBS=2 FAULTS=2 NO_ROUND_CHECK", False),
    ("they do not check the round: a failover", "intake", "JOBS=2 FAULTS=0 ROLLBACK NO_ROUND_CHECK", False),
    ("a leader leaves older stages alone", "intake", "JOBS=2 FAULTS=1 NO_REPLAY", True),
    ("a batch ends before its last jobs are admitted", "intake", "JOBS=2 FAULTS=0 NO_OWN", False),
    ("`submit` pushes again when it is repeated", "intake", "JOBS=2 FAULTS=1 BLIND_SUBMIT", False),
    ("no script checks the attempt", "leases", "JOBS=2 FAULTS=1 NO_FENCE", False),
    ("no script checks the lease", "leases", "JOBS=2 FAULTS=1 NO_LEASE_CHECK", False),
    ("a job that has ended is settled again", "leases", "JOBS=2 FAULTS=1 NO_GONE_CHECK", False),
    ("`hold` counts the attempt", "leases", "JOBS=2 FAULTS=0 HOLD_COUNTS", False),
    ("`hold` keeps the lease", "leases", "JOBS=2 FAULTS=0 KEEP_LEASE", False),
    ("no process sweeps", "leases", "JOBS=2 FAULTS=1 NO_SWEEP", True),
    ("`hold` holds a job of a cancelled batch", "leases", "JOBS=2 FAULTS=0 DEAD_HOST HOLD_CANCELLED", True),
    ("a cancellation leaves held jobs alone", "leases", "JOBS=2 FAULTS=0 DEAD_HOST NO_PROMOTION", True),
    ("`settlePack` does not compare the number of sources", "packs", "FAULTS=1 NO_COUNT", False),
    ("it does not check the attempt", "packs", "NO_FENCE", False),
    ("it does not check the lease", "packs", "NO_LEASE_CHECK", False),
    ("it drops the sources about which nothing was decided", "packs", "FAULTS=0 NO_REST", False),
    ("no process sweeps packs", "packs", "FAULTS=1 NO_SWEEP", True),
    ("the same outcome has the same digest when it is written again", "outcomes", "RETURNS=1 NO_TIME", False),
    ("a reader does not compare digests", "outcomes", "RETURNS=1 NO_DIGEST", False),
    ("a reader forgets which outcomes it has", "outcomes", "RETURNS=1 NO_HISTORY", False),
    ("`results` deletes outcomes that the reader may not have", "outcomes", "RETURNS=0 EARLY_DELETION", False),
    ("`claim` holds a job whose turn has come", "waking", "CIRCUIT CONCURRENCY=2 EARLY NO_TURN", True),
    ("`sweep` does not call `tick`", "waking", "NO_TICK", False),
    ("`sweep` pushes no token for jobs whose time has come", "waking", "NO_TOKEN", False),
    ("`releasePermit` pushes no token for a turn", "waking", "DRAINS=1 NO_TOKEN_OF_RELEASE", False),
    ("idle workers trust the tokens alone", "waking", "FAULTS=1 NO_FALLBACK", False),
    ("`claim` leaves ready jobs without a token", "waking", "NO_CHAIN", False),
    ("`claim` ends at its bound and the worker sleeps", "waking", "CIRCUIT CONCURRENCY=2 EARLY NO_MORE", False),
    ("a worker that was full does not wait for a token", "waking", "NO_LISTENING", False),
    ("a full worker swallows a token", "waking", "NO_PASSING", False),
    ("a draining worker keeps a token", "waking", "DRAINS=1 NO_FAREWELL", False),
    ("`hold` counts the attempt", "waking", "HOLD_COUNTS", False),
    ("`acquirePermit` ignores the concurrency", "waking", "NO_CONCURRENCY", False),
    ("`acquirePermit` ignores the rate", "waking", "RATE=2 CONCURRENCY=2 NO_RATE", False),
    ("a failing host gets several probes", "waking", "CIRCUIT CONCURRENCY=2 NO_PROBE", False),
]


class Unchecked(Exception):
    """A run that says nothing: it did not compile, or did not reach all states."""


def execute(folder, *command):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Unchecked(f"{command[0]} took more than {TIMEOUT} s") from None
    return done.stdout + done.stderr


def search(folder, model, settings, is_progress):
    """Searches all states; returns the first broken rule, or None, and the numbers of the search."""
    for file in FOLDER.glob(f"{model}*.pml"):
        shutil.copy(file, folder)
    defines = [f"-D{setting}" for setting in settings.split()]
    output = execute(folder, "spin", "-a", *defines, f"{model}.pml")
    if not (folder / "pan.c").exists() or "Error" in output:
        raise Unchecked(output)
    kind = ["-DNFAIR=3"] if is_progress else ["-DSAFETY", "-DNOCLAIM"]
    output = execute(folder, "gcc", "-O2", "-w", "-DCOLLAPSE", f"-DMEMLIM={MEGABYTES}", *kind, "-o", "pan", "pan.c")
    if not (folder / "pan").exists():
        raise Unchecked(output)
    started = time.monotonic()
    output = execute(folder, "./pan", "-m1000000", *(["-a", "-f", "-N", "ends"] if is_progress else []))
    seconds = time.monotonic() - started

    def number(pattern):
        found = re.search(pattern, output)
        return float(found.group(1)) if found else 0.0

    states, depth = number(r"(\S+) states, stored"), number(r"depth reached (\d+)")
    memory = number(r"(\S+)\s+total actual memory")
    numbers = f"{states:,.0f} states, depth {depth:.0f}, {seconds:.1f} s, {memory:.0f} MB"
    broken = re.search(r"^pan:1: (.*) \(at depth", output, re.MULTILINE)
    if broken:
        return f"{broken.group(1)}; see: cd {folder} && spin -t -p -g {' '.join(defines)} {model}.pml", numbers
    if "errors: 0" not in output or "max search depth too small" in output or "Search not completed" in output:
        raise Unchecked("the search was not completed:\n" + output)
    return None, numbers


def main(arguments):
    if arguments not in ([], ["--smoke"], ["--mutations"]):
        sys.exit("usage: scripts/model [--smoke | --mutations]")
    must_break = arguments == ["--mutations"]
    faults = 0
    for rule, model, settings, is_progress in MUTATIONS if must_break else SMOKE if arguments else RULES:
        folder = BUILD / "-".join([model, *settings.split(), *(["progress"] if is_progress else [])])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            broken, numbers = search(folder, model, settings, is_progress)
            is_good = bool(broken) == must_break
        except Unchecked as error:
            broken, numbers, is_good = None, str(error), False
        reason = f": {broken}" if broken and not is_good else ""
        where = " ".join([model, *settings.split()])
        print(f"{'ok' if is_good else 'FAILED'}: {rule} ({where}): {numbers}{reason}", flush=True)
        faults += not is_good
        if is_good:
            shutil.rmtree(folder)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1:])
