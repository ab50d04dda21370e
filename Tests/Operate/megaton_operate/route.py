"""scripts/operate route: images of megaton serve beside those of thumbor, and a crowd that asks for one image."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time

from megaton_pace.latency import percentile
from megaton_pace.processes import free_port
from megaton_pace.result import Broken

from megaton_operate.images import Files, photographs
from megaton_operate.run import execute, parser, positive
from megaton_operate.site import OPERATE, ask

SIZE = 512
CROWD = 1000
CLIENTS = (2, 16)
PEERS = ("thumbor", "thumbor-stored")
LEAST_WARM = 5
# As thumbor comes it stores originals, and renders each request; with STORED it stores its results as well.
THUMBOR = """
ALLOW_UNSAFE_URL = True
QUALITY = 80
PROGRESSIVE_JPEG = False
RESPECT_ORIENTATION = True
AUTO_WEBP = False
LOADER = 'thumbor.loaders.http_loader'
HTTP_LOADER_MAX_CLIENTS = 16
METRICS = 'thumbor.metrics.logger_metrics'
STORAGE = 'thumbor.storages.file_storage'
FILE_STORAGE_ROOT_PATH = '{directory}/originals'
"""
STORED = """
RESULT_STORAGE = 'thumbor.result_storages.file_storage'
RESULT_STORAGE_STORES_UNSAFE = True
RESULT_STORAGE_EXPIRATION_SECONDS = 0
RESULT_STORAGE_FILE_STORAGE_ROOT_PATH = '{directory}/results'
"""


class Contestant:
    """A server of images: its ports, and the path of the image of a source."""

    def __init__(self, name, ports, path):
        self.name, self.ports, self.path = name, ports, path


def load(clients, seconds, ports, paths):
    """Runs the clients, and returns their result."""
    command = [sys.executable, "-B", "-m", "megaton_operate.load", str(clients), str(seconds),
               ",".join(map(str, ports))]
    done = subprocess.run(command, input="\n".join(paths), capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": OPERATE})
    if done.returncode:
        raise Broken(f"the clients ended with {done.returncode}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def start_megaton(site, processes):
    """Servers that render themselves and share the cache. Returns their contestant."""
    ports = []
    for _ in range(processes):
        # The level at which a server logs its port, and no request.
        server = site.serve("--open", "--unsigned-images", "--allow-private", "--host-concurrency", 1000,
                            "--log-level", "notice")
        ports.append(int(server.url.rsplit(":", 1)[1]))
    return Contestant("megaton", ports, lambda url: f"/image/unsafe/rs:fit:{SIZE}:{SIZE}/q:80/f:jpg/plain/{url}")


def start_thumbor(site, name, program, processes):
    """One server, whose processes share its port. Returns its contestant."""
    directory = os.path.join(site.directory, name)
    text = (THUMBOR + (STORED if name == "thumbor-stored" else "")).format(directory=directory)
    configuration = site.write(f"{name}.conf", text.splitlines())
    port = free_port()
    process = site.processes.start(name, [
        program, "--ip", "127.0.0.1", "--port", str(port), "--processes", str(processes), "--conf", configuration,
        "--log-level", "error",
    ])
    site.forking.append(process)

    def answers():
        if process.code is not None:
            raise Broken(f"thumbor ended with {process.code}: {process.errors[-500:]}")
        try:
            return ask(f"http://127.0.0.1:{port}/healthcheck", seconds=2)[0] == 200
        except OSError:
            return False

    site.reach("an answer of thumbor", 60, answers)
    return Contestant(name, [port], lambda url: f"/unsafe/fit-in/{SIZE}x{SIZE}/{url}")


class Measurement:
    """The figures of one contestant, for a number of clients, cold or warm, in one round."""

    def __init__(self, result):
        self.rate = len(result["latencies"]) / result["seconds"]
        self.median, self.late = (percentile(result["latencies"], part) for part in (0.5, 0.99))
        self.size = result["bytes"] / len(result["latencies"])
        self.failed = {status: count for status, count in result["statuses"].items() if status != "200"}

    def row(self, name, clients, kind):
        return f"{name:14} {clients:2} clients {kind}: {self.rate:8.1f}/s, p50 {self.median:7.1f} ms, " \
               f"p99 {self.late:7.1f} ms, {self.size / 1024:.1f} KiB"


def _check_sizes(site, result, contestants, files, count):
    """All outputs are JPEGs whose longer side has 512 px."""
    for contestant in contestants:
        wrong = []
        for number in range(count):
            url = f"http://127.0.0.1:{contestant.ports[0]}{contestant.path(files.url('check', number))}"
            status, fields, body = ask(url)
            path = os.path.join(site.directory, "check.jpg")
            with open(path, "wb") as file:
                file.write(body)
            run = ["vipsheader", path]
            head = subprocess.run(run, capture_output=True, text=True, check=False).stdout
            size = head.rsplit(": ", 1)[-1].split(" ", 1)[0]
            if status != 200 or not body.startswith(b"\xff\xd8") or str(SIZE) not in size.split("x"):
                wrong.append(f"{number}: {status} {fields.get('Content-Type')} {size}")
        result.require(f"{contestant.name}: {count} JPEGs of {SIZE} px", not wrong, "; ".join(wrong[:3]))


def _compare(result, contestants, files, count, options):
    """Rounds in turns: each contestant cold, with URLs of its own, and then warm with the same."""
    figures = {}
    for number in range(options.rounds):
        for clients in CLIENTS:
            order = contestants[number % len(contestants):] + contestants[:number % len(contestants)]
            for contestant in order:
                group = f"{contestant.name}-{number}-{clients}"
                urls = [files.url(f"{group}-{index // count}", index % count) for index in range(options.images)]
                paths = [contestant.path(url) for url in urls]
                for kind, seconds in (("cold", 0), ("warm", options.seconds)):
                    measured = Measurement(load(clients, seconds, contestant.ports, paths))
                    figures.setdefault((contestant.name, clients, kind), []).append(measured)
                    result.note(f"round {number + 1}: {measured.row(contestant.name, clients, kind)}")
                    if measured.failed:
                        raise Broken(f"{contestant.name} answered {measured.failed}")
    return figures


def _ratio(figures, peer, clients, kind, field):
    """The median of Megaton's figure divided by that of a peer, within the same rounds."""
    pairs = zip(figures["megaton", clients, kind], figures[peer, clients, kind])
    return statistics.median(getattr(one, field) / getattr(other, field) for one, other in pairs)


def _judge(result, figures, options):
    for kind, clients, peer in itertools.product(("cold", "warm"), CLIENTS, PEERS):
        if kind == "warm" and peer == "thumbor-stored":
            continue    # Both only send what is stored; the table has the figures.
        least = options.least_cold if kind == "cold" else LEAST_WARM
        case = f"{kind}, {clients} clients"
        result.bound(f"{case}: rate / that of {peer}", _ratio(figures, peer, clients, kind, "rate"), ">=", least)
        result.bound(f"{case}: p99 / that of {peer}", _ratio(figures, peer, clients, kind, "late"), "<=", 1)


def _table(figures):
    """Medians of the rounds as a table of Markdown; in brackets Megaton's rate divided by this one."""
    lines = ["", "| | clients | server | images/s | p50 | p99 |", "| --- | --- | --- | --- | --- | --- |"]
    for kind, clients, name in itertools.product(("cold", "warm"), CLIENTS, ("megaton", *PEERS)):
        rate, half, late = (statistics.median(getattr(one, field) for one in figures[name, clients, kind])
                            for field in ("rate", "median", "late"))
        ratio = "" if name == "megaton" else f" ({_ratio(figures, name, clients, kind, 'rate'):.2f} ×)"
        lines.append(f"| {kind} | {clients} | {name} | {rate:.0f}{ratio} | {half:.1f} ms | {late:.1f} ms |")
    return lines


def _counters(site):
    code, output, errors = site.call("stats", "--json")
    if code != 0:
        raise Broken(f"megaton stats ended with {code}: {errors[-300:]}")
    return json.loads(output)


def _crowd(site, result, contestant):
    """Clients that ask for one image at once, which no cache has; its origin takes half a second."""
    before = _counters(site)
    path = contestant.path(f"http://127.0.0.1:{site.origin_port}/photo-crowd/500/one.png")
    measured = load(CROWD, 0, contestant.ports, [path] * CROWD)
    late = percentile(measured["latencies"], 0.99)
    result.note(f"{CROWD} clients: {measured['seconds']:.2f} s in all, p99 {late:.0f} ms")
    answers = {int(status): count for status, count in measured["statuses"].items()}
    result.require(f"{CROWD} clients of one cold image get it", answers == {200: CROWD}, str(answers))
    result.bound("requests at the origin", site.requests("photo-crowd"), "=", 1)

    def counted():
        after = _counters(site)
        return [after[name] - before[name] for name in ("origin_fetches", "renders")]

    # Servers write their counters from time to time; a second fetch would be in one of the next writes.
    site.reach("the counters of the crowd", 30, lambda: all(counted()))
    time.sleep(5)
    fetches, renders = counted()
    result.bound("fetches by the counters", fetches, "=", 1)
    result.bound("renders by the counters", renders, "=", 1)


def route(site, result, options):
    directory, count = photographs(options.photos)
    site.start_servers(cache=("maxmemory 512mb", "maxmemory-policy allkeys-lru"))
    site.start_origin()
    files = Files(site, directory)
    megaton = start_megaton(site, options.processes)
    peers = [start_thumbor(site, name, options.thumbor, options.processes) for name in PEERS]
    contestants = [megaton, *peers]
    result.note(f"{count} photographs, {options.images} URLs a round, {options.processes} processes each")
    _check_sizes(site, result, contestants, files, min(count, 8))
    figures = _compare(result, contestants, files, count, options)
    _judge(result, figures, options)
    twice = {path: times for path, times in files.requests().items() if times > 1 and not path.startswith("/check/")}
    result.require("no original was fetched twice", not twice, str(list(twice.items())[:3]))
    _crowd(site, result, megaton)
    print("\n".join(_table(figures)), flush=True)


def main(arguments):
    made = parser("route", "Measures images of megaton serve beside thumbor in turns: JPEGs of 2,000 px to 512 px, "
                  "quality 80, cold and warm, 2 and 16 clients; and 1,000 clients that ask for one image. Takes about "
                  "20 minutes.")
    made.add_argument("--thumbor", metavar="FILE", required=True, help="thumbor; by default it is installed")
    made.add_argument("--photos", metavar="DIR", help="JPEGs of your own, in place of those of Debian's packages")
    made.add_argument("--rounds", type=int, default=5, help="rounds; 5 by default")
    made.add_argument("--images", type=int, default=300, metavar="N", help="URLs a round; 300 by default")
    made.add_argument("--seconds", type=positive, default=10, help="duration of each warm part; 10 by default")
    made.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N",
                      help="processes of each; the number of processors by default")
    made.add_argument("--least-cold", type=positive, default=1.0, metavar="RATIO",
                      help="bound of the cold rate, of thumbor's; 1 by default")
    options = made.parse_args(arguments)
    limit = 300 + options.rounds * len(CLIENTS) * (1 + len(PEERS)) * (options.seconds + options.images * 0.5)
    return execute("route", route, options, limit)
