"""scripts/operate api: schemathesis against megaton serve, with a valid token and without one."""

import collections
import http.client
import json
import os
import sys

from megaton_pace.processes import free_port
from megaton_pace.result import Broken
from megaton_pace.stage import ROOT

from megaton_operate.run import execute, parser, positive
from megaton_operate.site import OPERATE, ask

DOCUMENT = os.path.join(ROOT, "Sources", "MegatonServer", "API", "openapi.json")
# Streams without an end; _check_streams asks for them.
STREAMS = ("followBatch", "followDashboard")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance")
REFUSALS = {401, 403, 429}
METHODS = ("get", "post", "put", "delete")


class Document:
    """The documented statuses of each operation, and the operations that need a token."""

    def __init__(self, text):
        document = json.loads(text)
        self.statuses, self.protected = {}, set()
        for path, methods in document["paths"].items():
            for method in METHODS:
                if method not in methods:
                    continue
                operation, name = methods[method], f"{method.upper()} {path}"
                self.statuses[name] = {int(status) for status in operation["responses"] if status.isdigit()}
                if operation.get("security", document.get("security")):
                    self.protected.add(name)


class Pass:
    """One run of schemathesis, and the statuses of the answers by operation."""

    def __init__(self, site, options, name, url, seconds, token=None, checks=CHECKS):
        self.name = name
        record = os.path.join(site.directory, f"{name}.jsonl")
        header = ["--header", f"Authorization: Bearer {token}"] if token else []
        excluded = [part for operation in STREAMS for part in ("--exclude-operation-id", operation)]
        # It keeps a cache in its directory.
        command = [
            "/usr/bin/env", "--chdir", site.directory, options.schemathesis, "run", DOCUMENT, "--url", url, "--no-color", "--checks", ",".join(checks),
            "--max-time", str(int(seconds)), "--generation-with-security-parameters", "false",
            "--request-timeout", "90", "--continue-on-failure", "--no-shrink", "--generation-database", "none",
            "--seed", str(options.seed),
            *header, *excluded,
        ]
        environment = {"SCHEMATHESIS_HOOKS": "megaton_operate.api_hooks", "MEGATON_API_RECORD": record,
                       "PYTHONPATH": OPERATE, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
        if name != "valid":
            environment["MEGATON_API_CLOSE"] = "1"
        self.process = site.processes.start(f"schemathesis-{name}", command, environment)
        self.code = self.process.wait(seconds * 3 + 300)
        if self.code is None:
            self.process.kill()
            raise Broken(f"schemathesis, {name}: it was not over in time")
        self.answers = collections.Counter()
        self.examples = {}
        if os.path.exists(record):
            with open(record, encoding="utf-8") as lines:
                for line in map(json.loads, lines):
                    key = (line["operation"], line["method"], line["status"])
                    self.answers[key] += 1
                    self.examples.setdefault(key, line)

    @property
    def count(self):
        return sum(self.answers.values())

    def where(self, condition):
        """The answers for which a condition of operation, method and status holds, as text."""
        found = {key: count for key, count in self.answers.items() if condition(*key)}
        return "; ".join(f"{status} {count} × {method} at {operation}: {self.example(operation, method, status)}"
                         for (operation, method, status), count in sorted(found.items())[:8])

    def example(self, *key):
        line = self.examples[key]
        return f"{json.dumps(line['body'])[:120]} {line['answer'] or ''}".strip()


def _valid(site, result, options, document, token):
    """All requests with a token that may do everything."""
    run = Pass(site, options, "valid", site.url, options.minutes * 60, token)
    by_status = collections.Counter()
    for (_, _, status), count in run.answers.items():
        by_status[status] += count
    result.note(f"{run.count} requests: " + ", ".join(f"{count} × {key}" for key, count in sorted(by_status.items())))
    tried = {operation for operation, _, status in run.answers if status < 300}
    result.note(f"{len(tried)} of {len(document.statuses)} operations succeeded at least once")
    result.bound("requests", run.count, ">", 500 * min(options.minutes, 1))
    bad = run.where(lambda operation, method, status: status >= 500)
    result.require("no status of 5xx", not bad, bad)
    other = run.where(lambda operation, method, status: operation.startswith(method + " ")
                      and status not in document.statuses[operation])
    result.require("no undocumented status", not other, other)
    # Methods that a path does not have are refused. Its other operations do not document that.
    other = run.where(lambda operation, method, status: not operation.startswith(method + " ")
                      and f"{method} {operation.split(' ')[1]}" not in document.statuses
                      and status not in (405, *REFUSALS) and method not in ("HEAD", "OPTIONS"))
    result.require("other methods are refused", not other, other)
    tail = run.process.output.strip()[-4000:]
    if run.code != 0:
        print("\n".join("    " + line for line in tail.splitlines()), flush=True)
    result.require("schemathesis finds nothing", run.code == 0, f"exit {run.code}: {tail.splitlines()[-1:]}")


def _refused(site, result, options, document, tokens):
    """All requests with a missing, a wrong and an expired token: nothing but refusals."""
    server = int(site.url.rsplit(":", 1)[1])
    port = free_port()
    site.module("relay", "megaton_operate.relay", port, server)
    site.reach("an answer through the relay", 20, lambda: _answers(f"http://127.0.0.1:{port}/live"))
    for name, token in (("missing", None), ("wrong", "0123456789abcdef" * 4), ("expired", tokens["expired"])):
        seconds = max(options.minutes * 60 / 10, 10)
        run = Pass(site, options, name, f"http://127.0.0.1:{port}", seconds, token, ("not_a_server_error",))
        bad = run.where(lambda operation, method, status: operation in document.protected and status not in REFUSALS)
        protected = {key: count for key, count in run.answers.items() if key[0] in document.protected}
        refused = sum(count for (_, _, status), count in protected.items() if status == 401)
        total = sum(protected.values())
        result.require(f"{name} token: nothing but 401, 403 and 429 in {total} requests", not bad, bad)
        result.bound(f"{name} token: operations that were tried", len({key[0] for key in protected}), ">=",
                     len(document.protected) - len(STREAMS))
        # Otherwise only the limit of attempts was tested.
        result.bound(f"{name} token: share of 401", refused / max(total, 1), ">=", 0.5)


def _answers(url):
    try:
        return ask(url, seconds=2)[0] == 200
    except OSError:
        return False


def _check_streams(site, result, token, is_valid):
    """The first line of each stream of events."""
    host, port = site.url.removeprefix("http://").split(":")
    for path, status in (("/api/v1/dashboard/events", 200), ("/api/v1/batches/spring/events", 200),
                         ("/api/v1/batches/nothing/events", 404), ("/api/v1/batches/spring/events?from=x", 400)):
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            response = connection.getresponse()
            wanted = status if is_valid else 401
            line = response.readline().decode().strip() if response.status == 200 else ""
            holds = response.status == wanted and (wanted != 200 or line.startswith(("event:", ":")))
            result.require(f"{path}{'' if is_valid else ', no valid token'}: {wanted}", holds,
                           f"{response.status} {line}")
        finally:
            connection.close()


def api(site, result, options):
    # As large as an operator would have it, and small enough that a leak of jobs shows as 503.
    site.start_servers(control=("maxmemory 512mb",), cache=("maxmemory 128mb", "maxmemory-policy allkeys-lru"))
    site.start_origin()
    site.coordinator = site.launch("coordinator", "coordinator", "--log-level", "warning")
    for port in site.free_ports(2):
        # Generated URLs must not leave this machine.
        site.work(port, "--concurrency", 8, "--allow-source", "127.0.0.1:*")
    site.ready(2)
    path, tokens = site.tokens(
        all=["read", "submit", "admin"],
        expired={"scopes": ["read", "submit", "admin"], "expires": "2020-01-01T00:00:00Z"},
    )
    site.serve("--tokens", path, "--log-level", "notice")
    status, _, body = ask(f"{site.url}/api/v1/openapi.json", token=tokens["all"])
    with open(DOCUMENT, encoding="utf-8") as file:
        document = Document(file.read())
    result.require("the served document is that of the sources", status == 200
                   and Document(body).statuses == document.statuses, f"{status}; is the program of this version?")
    source = json.dumps({"id": "a", "source": f"http://127.0.0.1:{site.origin_port}/spring/0/a.png"}).encode()
    status, _, body = ask(f"{site.url}/api/v1/jobs", "POST", source, tokens["all"])
    result.require("a job is accepted", status == 202, f"{status} {body[:200]!r}")
    batch = site.submit("spring", site.urls("spring", 20, 0), "--batch", "spring")
    batch.wait(60)
    _check_streams(site, result, tokens["all"], True)
    _valid(site, result, options, document, tokens["all"])
    _refused(site, result, options, document, tokens)
    _check_streams(site, result, None, False)
    result.require("the server is ready afterwards", _answers(f"{site.url}/ready"))


def main(arguments):
    made = parser("api", "Lets schemathesis test the HTTP API by its own description, against a cluster with two "
                  "workers: no 5xx and no undocumented status; and without a valid token nothing but refusals. Takes "
                  "the minutes, a third more for tokens, and two.")
    made.add_argument("--schemathesis", metavar="FILE", required=True, help="schemathesis; by default it is installed")
    made.add_argument("--minutes", type=positive, default=10, help="duration of the first pass; 10 by default")
    made.add_argument("--seed", type=int, default=1, help="seed of the requests; 1 by default")
    options = made.parse_args(arguments)
    if not os.path.exists(options.schemathesis):
        print(f"{options.schemathesis} is missing; scripts/operate installs it", file=sys.stderr)
        return 64
    return execute("api", api, options, options.minutes * 60 * 5 + 1800)
