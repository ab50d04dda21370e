"""Runs the mutations beside this file; `scripts/mutations` says how.

A mutation names a rule, the test that holds it, the source file (anywhere in Sources), and a piece of that file with
its replacement. The piece must occur once.
"""

import pathlib
import re
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parent.parent
# A mutation may let a test hang; its suite's limit on time is shorter than this.
TIMEOUT = 1800


class Unfit(Exception):
    """The mutation does not fit the source."""


class Mutation:
    def __init__(self, path):
        self.name = path.stem
        head, _, rest = path.read_text(encoding="utf-8").partition("\n--- replace\n")
        fields = dict(line.split(": ", 1) for line in head.splitlines())
        self.rule, self.test, self.file = fields["rule"], fields["test"], fields["file"]
        self.old, _, new = rest.partition("\n--- by\n")
        self.new = new.removesuffix("\n")

    @property
    def function(self):
        return self.test.split("/")[1]

    def locate(self):
        """The source file and its text, before and after."""
        paths = list((ROOT / "Sources").rglob(self.file))
        if len(paths) != 1:
            raise Unfit(f"{len(paths)} files are named {self.file}")
        text = paths[0].read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise Unfit(f"{self.file} has {text.count(self.old)} times: {self.old}")
        return paths[0], text, text.replace(self.old, self.new)


def run(*command):
    """Runs a command in the root; returns its exit code and its output. A timeout counts as a failure."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return -1, "timeout"
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def build():
    code, output = run("swift", "build", "--build-tests")
    return None if code == 0 else output


def test(mutations):
    pattern = "|".join(re.escape(mutation.test) + r"\(" for mutation in mutations)
    return run("swift", "test", "--skip-build", "--no-parallel", "--filter", pattern)


def end_of(output):
    return "".join(f"    {line}\n" for line in output.splitlines()[-20:])


def check_unchanged(mutations):
    """Without a mutation, each test must run and succeed."""
    output = build()
    if output is not None:
        sys.exit(f"the source does not build:\n{end_of(output)}")
    code, output = test(mutations)
    missing = [mutation.test for mutation in mutations if f"Test {mutation.function}(" not in output]
    if code != 0 or missing:
        sys.exit(f"without a mutation, tests fail or are missing {missing}:\n{end_of(output)}")


def outcome_of(mutation):
    """What became of the mutation: `killed`, or the reason why not."""
    try:
        path, before, after = mutation.locate()
    except Unfit as error:
        return f"DOES NOT FIT: {error}"
    try:
        path.write_text(after, encoding="utf-8")
        output = build()
        if output is not None:
            return f"DOES NOT BUILD:\n{end_of(output)}"
        code, _ = test([mutation])
        return "killed" if code != 0 else f"SURVIVED: {mutation.test} does not fail"
    finally:
        path.write_text(before, encoding="utf-8")


def main(arguments):
    mutations = [Mutation(path) for path in sorted(FOLDER.glob("*.txt"))]
    checks_only = "--check" in arguments
    wanted = [argument for argument in arguments if argument != "--check"]
    for argument in wanted:
        if not any(mutation.name.startswith(argument) for mutation in mutations):
            print(f"there is no mutation {argument}; they are: {', '.join(m.name for m in mutations)}", file=sys.stderr)
            return 64
    if wanted:
        mutations = [mutation for mutation in mutations if mutation.name.startswith(tuple(wanted))]
    if checks_only:
        failures = 0
        for mutation in mutations:
            try:
                mutation.locate()
            except Unfit as error:
                failures += 1
                print(f"{mutation.name} does not fit: {error}")
        return 1 if failures else 0
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if status.stdout:
        sys.exit(f"the checkout has changes; commit or stash them first:\n{status.stdout}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # So that the mutation is undone.
        signal.signal(number, lambda *_: sys.exit(130))
    check_unchanged(mutations)
    survivors = 0
    for mutation in mutations:
        start = time.monotonic()
        outcome = outcome_of(mutation)
        survivors += outcome != "killed"
        print(f"{mutation.name} ({time.monotonic() - start:.0f} s): {mutation.rule}: {outcome}", flush=True)
    print(f"{len(mutations) - survivors} of {len(mutations)} mutations were killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
