// The sections of the dashboard that only show: the queue, batches, workers, hosts and the shared cache.
import { $, count, counted, element, fine, notice, percent, reconcile, size, speed, table, time, write }
    from "./elements.js";

const maximumPoints = 360;
// Points of the last hour, the oldest first.
let history = [];

// MARK: Charts

const vector = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
};

const charts = [
    { title: "Jobs that ended, a second", lines: [["done", "done", "green"], ["failed", "failed", "red"]] },
    { title: "Jobs by state", lines: [["waiting", "waiting", "blue"], ["running", "running", "green"],
        ["delayed", "delayed or held", "amber"]] },
    { title: "Work, a second", lines: [["fetches", "requests to origins", "blue"],
        ["renders", "renditions made", "amber"]] },
    { title: "Workers that run", lines: [["workers", "workers", "blue"]] },
];

function chart(figure, { title, lines }) {
    if (!figure.drawing) {
        figure.drawing = vector("svg", { role: "img", viewBox: "0 0 360 100", preserveAspectRatio: "none" });
        figure.text = element("figcaption");
        figure.append(figure.text, figure.drawing, element("ul", { className: "key" }, ...lines.map(
            ([, label, color]) => {
                const mark = vector("svg", { viewBox: "0 0 16 4", "aria-hidden": "true" });
                mark.append(vector("polyline", { class: color, points: "0,2 16,2" }));
                return element("li", {}, mark, ` ${label}`);
            })));
    }
    const points = history, end = points.length ? points[points.length - 1].time : 0;
    const highest = Math.max(0, ...points.flatMap(point => lines.map(([name]) => point[name] ?? 0)));
    const parts = [];
    for (const [name, , color] of lines) {
        let part = [], last = 0;
        // While the server could not read the cluster, a line has a gap.
        const close = () => { if (part.length) parts.push([color, part]); part = []; };
        for (const point of points) {
            if (point[name] == null || point.time - last > 30) close();
            last = point.time;
            if (point[name] == null) continue;
            const x = 360 - (end - point.time) / 10, y = highest ? 97 - 94 * point[name] / highest : 97;
            part.push(`${x.toFixed(1)},${y.toFixed(1)}`);
        }
        close();
    }
    reconcile(figure.drawing, parts.map((part, index) => [index, ...part]), part => part[0],
        () => vector("polyline", {}), (line, [, color, part]) => {
            line.setAttribute("class", color);
            // One point is a short line.
            line.setAttribute("points", part.length > 1 ? part.join(" ") : `${part[0]} ${part[0].replace(/^[^,]*/,
                x => (Number(x) - 2).toFixed(1))}`);
        });
    const now = points[points.length - 1];
    const words = !now ? "no values yet" : lines.map(([name, label]) =>
        `${label} ${now[name] == null ? "not known yet" : fine.format(now[name])}`).join(", ");
    write(figure.text, `${title}, over the last hour. Now: ${words}. Highest: ${fine.format(highest)}.`);
    figure.drawing.setAttribute("aria-label", `${title}, over the last hour`);
}

// MARK: Sections

function showQueue({ queue, points }) {
    const modes = queue.pauses;
    notice("paused", !modes.includes("paused") ? null :
        "The queue is paused: no worker claims a job until it is resumed by megaton queue resume.");
    notice("drain", !modes.includes("drain") ? null :
        "The queue drains: jobs that are pushed wait, and those that were admitted go on.");
    const isIdle = queue.ready + queue.running + queue.delayed + queue.held + queue.intake + queue.staged === 0;
    notice("leader", queue.has_leader || isIdle ? null :
        "No coordinator leads the queue, so that no job is admitted. Start megaton coordinator, or a worker.", "bad");
    for (let index = 0; index < 8; index += 1) notice(`warning-${index}`, queue.warnings[index] ?? null);
    write($("queue-text"), !queue.is_known ? "No job was ever pushed to this queue. Submit some with megaton submit." :
        isIdle ? "The queue is empty: all jobs have ended." : queue.oldest_ready_seconds == null ? "Jobs by state:" :
        `The oldest job that is ready has waited for ${time(queue.oldest_ready_seconds)}.`);
    const numbers = [["Pushed", queue.intake + queue.staged], ["Ready", queue.ready], ["Running", queue.running],
        ["Delayed", queue.delayed], ["Held for a host", queue.held], ["Dead", queue.dead], ["Done", queue.done],
        ["Failed", queue.failed], ["Cancelled", queue.cancelled], ["Retries", queue.retried],
        ["Expired leases", queue.stalled]];
    reconcile($("numbers"), numbers, ([name]) => name, ([name]) =>
        element("div", {}, element("dt", { textContent: name }), element("dd")),
        (row, [, number]) => write(row.lastChild, count(number)));
    const last = history.length ? history[history.length - 1].time : 0;
    const fresh = points.filter(point => point.time > last);
    if (fresh.length) history = [...history, ...fresh].slice(-maximumPoints);
    history = history.filter(point => point.time > history[history.length - 1].time - 3600);
    if (fresh.length || !$("charts").byKey) {
        reconcile($("charts"), charts, item => item.title, () => element("figure"), chart);
    }
}

// Why no job of the queue begins, or null.
function standstillOf(queue) {
    if (queue.pauses.includes("paused")) return "the queue is paused";
    // While jobs that were admitted are left, they go on, and it is not known whose jobs wait in the intakes.
    const admitted = queue.staged + queue.ready + queue.running + queue.delayed + queue.held;
    return queue.pauses.includes("drain") && queue.intake > 0 && admitted === 0 ? "the queue drains" : null;
}

const leftOf = (batch, queue) => batch.state === "finished" ? "ended" :
    batch.state === "damaged" ? "its key cannot be read" :
    batch.submitted === batch.ended ? "waits for more jobs" : standstillOf(queue) ?? (
    batch.seconds_left != null ? `about ${time(batch.seconds_left)}` :
    batch.jobs_per_second === 0 ? "no job has ended for a minute" : "not known yet");

function showBatches({ batches, batch_count: all, queue }) {
    write($("batches-text"), !batches ? "The batches are not known while a shard of the queue does not answer." :
        batches.length === 0 ? "There is no batch." : "");
    table($("batches"), batches && all > batches.length ? `${batches.length} of ${count(all)} batches`
        : "All batches", [
        ["Batch", "", batch => batch.batch],
        ["State", "", batch => batch.state],
        ["Progress", "", (batch, cell) => {
            if (!cell.bar) {
                cell.bar = element("progress", { max: 1 });
                cell.text = element("span");
                cell.append(element("div", {}, cell.bar, cell.text));
            }
            cell.bar.value = batch.submitted ? Math.min(batch.ended / batch.submitted, 1) : 0;
            cell.bar.setAttribute("aria-label", `Progress of ${batch.batch}`);
            write(cell.text, `${count(batch.ended)} of ${count(batch.submitted)} jobs`);
        }],
        ["Failed", "number", batch => count(batch.failed)],
        ["Cancelled", "number", batch => count(batch.cancelled)],
        ["Speed", "", batch => batch.state === "finished" ? "" : speed(batch.jobs_per_second)],
        ["Time left", "", batch => leftOf(batch, queue)],
    ], batches ?? [], batch => batch.batch);
}

const jobOf = job => (job.batch ? `${job.batch}/${job.id}` : job.id) + (job.host ? ` from ${job.host}` : "")
    + (job.attempt > 1 ? `, attempt ${job.attempt}` : "");

function doingOf(worker, queue) {
    if (!worker.is_living) return `silent for ${time(worker.silent)}: it died or hangs; its jobs go to others`;
    if (worker.jobs.length === 0) {
        const reason = standstillOf(queue);
        return worker.running ? counted(worker.running, "job") : reason ? `waits: ${reason}` : "waits for jobs";
    }
    const rest = worker.running - worker.jobs.length;
    return worker.jobs.map(jobOf).join("; ") + (rest > 0 ? `; and ${counted(rest, "more job")}` : "");
}

function showWorkers({ workers, worker_count: all, living_workers: living, coordinators, queue }) {
    const waits = queue.ready + queue.intake + queue.staged > 0;
    const silent = workers.filter(worker => !worker.is_living).map(worker => worker.name);
    notice("silent", all === living ? null : `${counted(all - living, "worker")} sent no heartbeat lately: `
        + `${listed(silent, all - living)}. ${all - living === 1 ? "It" : "Each"} has died or hangs, or its machine or `
        + "network is away; its jobs go to others when their leases end.", "bad");
    write($("workers-text"), all === 0
        ? `No worker has signed on${waits ? ", so that jobs wait" : ""}. Start one with megaton worker.`
        : `${counted(living, "worker")} and ${counted(coordinators, "coordinator")} run.`);
    const order = "silent ones first, then the busiest";
    table($("workers"), all > workers.length ? `${workers.length} of ${count(all)} workers, ${order}`
        : `All workers, ${order}`, [
        ["Worker", "", worker => worker.name],
        ["Version", "", worker => worker.version ?? "not known"],
        ["Jobs", "number", worker => count(worker.running)],
        ["Now", "", (worker, cell) => {
            cell.classList.toggle("bad-text", !worker.is_living);
            return doingOf(worker, queue);
        }],
    ], workers, worker => worker.name);
}

// The first names, and the number of the others.
function listed(names, all) {
    const shown = names.slice(0, 3), rest = all - shown.length;
    return shown.join(", ") + (rest > 0 ? ` and ${counted(rest, "more", "more")}` : "");
}

function circuitOf(host) {
    if (host.open) return host.open_seconds > 0 ? `open; a probe in ${time(host.open_seconds)}` : "open; it is probed";
    return host.blocked_seconds > 0 ? `closed; the host asked for a pause of ${time(host.blocked_seconds)}` : "closed";
}

function showHosts({ hosts }) {
    const open = hosts.restricted.filter(host => host.open).map(host => host.host);
    notice("open", hosts.open_count === 0 ? null : `${counted(hosts.open_count, "host")} failed too often and `
        + `${hosts.open_count === 1 ? "gets" : "get"} probes only: ${listed(open, hosts.open_count)}. `
        + "Jobs from there wait until a probe succeeds.");
    write($("hosts-text"), hosts.restricted_count === 0 ? "No host is limited, and no circuit breaker is open." : "");
    table($("hosts"), hosts.restricted_count > hosts.restricted.length
        ? `${hosts.restricted.length} of ${count(hosts.restricted_count)} restricted hosts, most failures first`
        : "Restricted hosts, most failures first", [
        ["Host", "", host => host.host],
        ["Limit", "", host => host.factor < 1 ? `${percent(host.factor)} of the usual rate` : "usual rate"],
        ["Circuit breaker", "", (host, cell) => {
            cell.classList.toggle("bad-text", host.open);
            return circuitOf(host);
        }],
        ["Failures in a row", "number", host => count(host.failures)],
        ["Last failure", "", host => host.last_failure ?? (host.failures ? "not known" : "")],
    ], hosts.restricted, host => host.host);
    table($("fetched"), "Hosts with most requests since the queue was created", [
        ["Host", "", host => host.host],
        ["Requests", "number", host => count(host.fetches)],
    ], hosts.most_fetched, host => host.host);
}

const tiers = {
    shared_cache: "Found in the shared cache", stale: "A stale entry, as the origin allows",
    single_flight: "Waited for the same work of another job", remembered_failure: "Found a remembered failure",
    revalidated: "Confirmed by the origin", origin: "Requested from the origin",
};

function showCache({ cache }) {
    write($("cache-text"), cache.hit_ratio == null ? "The shared cache was not asked yet." :
        `${percent(cache.hit_ratio)} of the lookups found an entry; ${size(cache.bytes_out)} were read, and `
        + `${size(cache.bytes_in)} written.`);
    table($("tiers"), "Answers by tier since the queue was created", [
        ["Tier", "", tier => tiers[tier.name] ?? tier.name],
        ["Answers", "number", tier => count(tier.count)],
    ], cache.tiers, tier => tier.name);
    const crowded = cache.servers.filter(server => server.needs_room);
    const isFull = crowded.some(server => server.is_full);
    const names = crowded.map(server => server.address + (isFull && !server.is_full ? " (nearly full)" : ""));
    notice("full", crowded.length === 0 ? null : "The shared cache is "
        + `${isFull ? "full and refuses new entries" : "nearly full and evicts nothing"}: `
        + `${listed(names, crowded.length)}. Raise maxmemory, or set maxmemory-policy to allkeys-lru, or to `
        + "volatile-lru if it holds jobs too.", isFull ? "bad" : "");
    const silent = cache.servers.filter(server => !server.answers).map(server => server.address);
    notice("cache", silent.length === 0 ? null : "The shared cache does not answer, so that images are fetched and "
        + `made anew: ${listed(silent, silent.length)}.`, "bad");
    table($("servers"), "Servers of the shared cache", [
        ["Server", "", server => server.address],
        ["Memory", "", (server, cell) => {
            cell.classList.toggle("bad-text", server.used == null || server.is_full && !server.evicts);
            if (server.used == null) return `not known: ${server.problem ?? "it does not answer"}`;
            return size(server.used) + (server.limit ? ` of ${size(server.limit)}` : ", without a limit")
                + (!server.is_full ? "" : server.evicts ? "; full: entries are evicted for new ones"
                    : "; full: it refuses new entries")
                + (server.needs_room && !server.is_full ? "; nearly full: it evicts nothing" : "");
        }],
        ["Evicted keys", "number", server => server.used == null ? "" : count(server.evictions)],
    ], cache.servers, server => server.address);
}

// Shows the points of the last hour in place of those that are known.
export function showHistory(points) {
    history = points.slice(-maximumPoints);
    $("charts").byKey?.forEach((figure, title) => chart(figure, charts.find(item => item.title === title)));
}

export function showSections(snapshot) {
    for (const show of [showQueue, showBatches, showWorkers, showHosts, showCache]) show(snapshot);
}
