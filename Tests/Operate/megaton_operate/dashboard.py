"""scripts/operate dashboard: the page in Chromium under load, and its cost for the control Redis."""

import os
import signal
import statistics
import sys
import time

from megaton_pace.result import Broken
from megaton_pace.stage import ROOT

from megaton_operate.run import execute, parser, positive

sys.path.insert(0, os.path.join(ROOT, "Tests", "Browser"))
# pylint: disable-next=wrong-import-position
from page import Browser  # noqa: E402

WORKERS_PER_PROCESS = 250
# Width and height of each screenshot.
SHOTS = {"light": (1200, 1500), "dark": (1200, 1500), "narrow": (360, 2000)}
LOADS = 5
# Seconds of a window without other clients of Redis: shorter than a lease and its heartbeat.
WINDOW = 8
# Jobs a second of all workers, by the duration of a job: a backlog that lasts for the whole measurement.
JOB_MILLISECONDS = 5000


def start(site, result, options):
    """A coordinator, simulated workers, and a backlog in three batches."""
    bench = os.path.join(os.path.dirname(site.program), "megaton-bench")
    if not os.path.exists(bench):
        raise Broken(f"{bench} is missing; it must be beside the program")
    site.fleet = []
    site.start_servers()
    site.coordinator = site.launch("coordinator", "coordinator", "--log-level", "warning")
    site.serve("--open", "--log-level", "notice")
    for first in range(0, options.workers, WORKERS_PER_PROCESS):
        count = min(WORKERS_PER_PROCESS, options.workers - first)
        site.fleet.append(site.processes.start("workers", [
            bench, "cluster-workers", "--redis", site.control.url, "--workers", str(count), "--concurrency", "1",
            "--hosts", "40", "--render-ms", str(JOB_MILLISECONDS), "--open-files", str(count + 200),
        ]))
    site.ready(options.workers)
    for name, share in (("autumn", 0.1), ("summer", 0.3), ("spring", 0.6)):
        count = int(options.jobs * share)
        urls = (f"https://images-{number % 40}.example.org/{name}/{number}.jpg" for number in range(count))
        code, _ = site.submit(name, list(urls), wait=False).wait(300)
        if code != 0:
            raise Broken(f"megaton submit ended with {code}")
    queue = site.dashboard()["queue"]
    open_jobs = sum(queue[state] for state in ("intake", "staged", "ready", "running"))
    result.note(f"{options.workers} simulated workers, {open_jobs} open jobs")
    result.bound("open jobs before the measurement", open_jobs, ">=", options.jobs * 0.9)


def _seen(workers):
    return f"document.body && document.body.innerText.includes('{workers:,} workers and 1 coordinator')"


def _paint(site, browser, result, workers):
    """Loads the page several times, each time anew."""
    paints, complete = [], []
    for _ in range(LOADS):
        browser.go("about:blank")
        browser.send("Network.clearBrowserCache")
        begun = time.monotonic()
        browser.go(site.url)
        browser.wait(_seen(workers))
        complete.append(time.monotonic() - begun)
        # The document may be complete before the browser has drawn it.
        site.reach("a first paint", 20, lambda: browser.paint() is not None)
        paints.append(browser.paint())
    result.note(f"first paint {', '.join(f'{value:.0f}' for value in paints)} ms; with the state of the cluster after "
                f"{', '.join(f'{value:.1f}' for value in complete)} s")
    result.bound("first paint in ms, the worst of 5", max(paints), "<", 1000)


def _cpu(redis):
    """Seconds of processor time of a Redis, microseconds of its commands, and their number."""
    processor = redis.info("cpu")
    used = float(processor["used_cpu_user"]) + float(processor["used_cpu_sys"])
    stats = [dict(part.split("=") for part in value.split(",")) for value in redis.info("commandstats").values()]
    return used, sum(int(one["usec"]) for one in stats), sum(int(one["calls"]) for one in stats)


def _window(redis, seconds):
    """Shares of a processor, by the process and by its commands, and commands a second, over a time."""
    before, begun = _cpu(redis), time.monotonic()
    time.sleep(seconds)
    after, passed = _cpu(redis), time.monotonic() - begun
    used, micros, calls = (late - early for late, early in zip(after, before))
    return used / passed, micros / 1e6 / passed, calls / passed


def _cost(site, browser, result, options):
    """Processor time of the control Redis for the updates of the page.

    The load of the workers varies by more than the updates cost. For some seconds, less than a lease, all other clients
    of Redis are stopped, with the page and without; the state that is read is that of the whole fleet.
    """
    redis, costs = site.control.client, []
    for number in range(options.windows):
        figures = {}
        for is_open in ((True, False), (False, True))[number % 2]:
            browser.go(site.url if is_open else "about:blank")
            if is_open:
                browser.wait(_seen(options.workers))
            # The server stops reading as its last page has gone.
            time.sleep(3)
            if number == 0:
                load = _window(redis, WINDOW)
                result.note(f"under load {'with' if is_open else 'without'} the page: {load[0]:.1%} of a processor")
            others = [site.coordinator, *site.fleet]
            for process in others:
                process.send(signal.SIGSTOP)
            try:
                time.sleep(0.5)
                figures[is_open] = _window(redis, WINDOW)
            finally:
                for process in others:
                    process.send(signal.SIGCONT)
            # Heartbeats come every five seconds.
            time.sleep(6)
        costs.append([with_page - without for with_page, without in zip(figures[True], figures[False])])
        result.note(f"updates alone: {figures[True][0]:.2%} of a processor, {figures[True][1]:.2%} in commands, "
                    f"{figures[True][2]:.0f} commands/s; no page: {figures[False][0]:.2%}")
    used, micros, _ = (statistics.median(values) for values in zip(*costs))
    result.bound("processor time of the control Redis for updates, %", used * 100, "<=", 1)
    result.bound("time of its commands for updates, %", micros * 100, "<=", 1)


def _memory(browser, site, result, options):
    """The page stays open; its heap must not grow."""
    browser.go(site.url)
    browser.wait(_seen(options.workers))
    samples, begun = [], time.monotonic()
    pause = min(10, options.minutes * 60 / 12)
    # The first tables and charts are no growth.
    time.sleep(pause)
    while time.monotonic() - begun < options.minutes * 60:
        samples.append(browser.heap())
        time.sleep(pause)
    part = max(len(samples) // 4, 1)
    for name, values, unit in zip(("heap", "nodes"), zip(*samples), (1 << 20, 1)):
        first, last = statistics.median(values[:part]), statistics.median(values[-part:])
        result.note(f"{name}: first quarter {first / unit:.2f}, last {last / unit:.2f}, most {max(values) / unit:.2f}"
                    f"{' MiB' if unit > 1 else ''}, {len(values)} samples in {options.minutes:g} min")
        result.bound(f"{name} of the page, last quarter / first", last / first, "<=", 1.1)


def _shots(browser, result, options):
    os.makedirs(options.screenshots, exist_ok=True)
    for name, (width, height) in SHOTS.items():
        browser.prefer("dark" if name == "dark" else "light")
        browser.resize(width)
        # A snapshot comes every two seconds.
        time.sleep(3)
        path = os.path.join(options.screenshots, f"dashboard-{name}.png")
        browser.shoot(path, height)
        content = browser.evaluate("document.documentElement.scrollWidth")
        result.note(f"screenshot: {path}")
        result.bound(f"width of the page at {width} px, {name}", content, "<=", width)


def dashboard(site, result, options):
    try:
        start(site, result, options)
        _watch(site, result, options)
    finally:
        # Simulated workers drain for as long as their jobs last.
        for process in site.fleet:
            process.kill()


def _watch(site, result, options):
    profile = os.path.join(site.directory, "profile")
    os.makedirs(profile)
    with open(os.path.join(site.directory, "browser.err"), "wb") as errors:
        browser = Browser(profile, errors)
    try:
        browser.open(SHOTS["light"][0])
        browser.send("Network.enable")
        browser.send("Emulation.setScrollbarsHidden", hidden=True)
        _paint(site, browser, result, options.workers)
        _cost(site, browser, result, options)
        _memory(browser, site, result, options)
        _shots(browser, result, options)
        result.require("no message of the page or the browser", not browser.problems, "; ".join(browser.problems[:3]))
    finally:
        browser.end()
    queue = site.dashboard()["queue"]
    result.require("the workers did jobs until the end", queue["done"] > 0 and queue["running"] > 0, str(queue))


def main(arguments):
    made = parser("dashboard", "Opens the dashboard in Chromium while simulated workers do jobs: first paint, the cost "
                  "for the control Redis, the memory of the page, and screenshots. Takes about 15 minutes.")
    made.add_argument("--minutes", type=positive, default=10, help="how long the memory is watched; 10 by default")
    made.add_argument("--workers", type=int, default=1000, help="simulated workers; 1,000 by default")
    made.add_argument("--jobs", type=int, default=200_000, help="jobs of the backlog; 200,000 by default")
    made.add_argument("--windows", type=int, default=5, help="windows with the page, and without; 5 by default")
    made.add_argument("--screenshots", metavar="DIR", default=os.path.join(ROOT, ".build", "operate", "screenshots"),
                      help="directory of the screenshots; .build/operate/screenshots by default")
    options = made.parse_args(arguments)
    limit = 600 + options.minutes * 90 + options.windows * 90
    return execute("dashboard", dashboard, options, limit)
