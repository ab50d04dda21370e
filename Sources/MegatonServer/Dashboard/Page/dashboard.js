// The dashboard of megaton serve. It reads GET /api/v1/dashboard/events by fetch(), which can send a token, as
// EventSource cannot. Texts of jobs come from strangers: each is set as textContent, never as HTML.
"use strict";

const api = "/api/v1/";
const tokenKey = "megaton-token";
// Characters that a stream may send without the end of an event.
const maximumEvent = 4 * 1024 * 1024;
// Delays before the next connection, ms.
const shortestDelay = 1000, longestDelay = 30000;
// The server sends an event every 2 s, and gives up a reading after 5 s.
const silenceLimit = 20000;
const maximumPoints = 360;
const maximumRows = 200;

const $ = id => document.getElementById(id);
const state = { points: [], mayChange: false, stream: null, timer: null, delay: shortestDelay, said: "",
    announced: "", ended: false, token: null };

// MARK: Texts

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const count = number => whole.format(number ?? 0);
const counted = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;
const speed = number => number == null ? "not known yet" : `${fine.format(number)} a second`;
const percent = part => `${whole.format(100 * part)} %`;

function size(bytes) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit += 1; }
    return `${fine.format(bytes)} ${units[unit]}`;
}

function time(seconds) {
    if (seconds < 1) return "less than a second";
    if (seconds < 90) return counted(Math.round(seconds), "second");
    if (seconds < 5400) return counted(Math.round(seconds / 60), "minute");
    if (seconds < 172800) return counted(Math.round(seconds / 3600), "hour");
    return counted(Math.round(seconds / 86400), "day");
}

const clock = seconds => new Date(seconds * 1000).toLocaleTimeString();
const date = seconds => new Date(seconds * 1000).toLocaleString();

// MARK: Elements

function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
        if (key in made) made[key] = value; else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
}

// Sets a text only if it has changed, so that selections and screen readers are left alone.
function write(target, text) {
    const string = String(text);
    if (target.textContent !== string) target.textContent = string;
}

// Makes the children of an element those of a list. An element stays as long as its key is in the list.
function reconcile(parent, items, key, make, update) {
    const kept = parent.byKey ?? new Map(), rows = new Map();
    items.slice(0, maximumRows).forEach((item, index) => {
        const name = key(item);
        if (rows.has(name)) return;
        const row = kept.get(name) ?? make(item);
        rows.set(name, row);
        update(row, item, index);
    });
    for (const [name, row] of kept) if (!rows.has(name)) row.remove();
    let position = parent.firstChild;
    for (const row of rows.values()) {
        if (row === position) position = position.nextSibling; else parent.insertBefore(row, position);
    }
    parent.byKey = rows;
}

// A table whose columns are [title, class, text or element of an item]; the first one names the row. The roles are
// those of the elements: narrow pages show rows as blocks, and browsers would then forget what they are.
function table(parent, caption, columns, items, key) {
    if (!parent.body) {
        const head = element("tr", { role: "row" }, ...columns.map(([title, name]) =>
            element("th", { scope: "col", role: "columnheader", className: name, textContent: title })));
        parent.caption = element("caption");
        parent.body = element("tbody", { role: "rowgroup" });
        parent.append(element("table", { role: "table" }, parent.caption,
            element("thead", { role: "rowgroup" }, head), parent.body));
    }
    parent.hidden = items.length === 0;
    write(parent.caption, caption);
    reconcile(parent.body, items, key, () => {
        const cells = columns.map(([title, name], index) => index === 0
            ? element("th", { scope: "row", role: "rowheader", className: name })
            : element("td", { role: "cell", className: name, "data-label": title }));
        return element("tr", { role: "row" }, ...cells);
    }, (row, item) => columns.forEach(([, , show], index) => {
        const cell = row.children[index], shown = show(item, cell);
        if (shown !== undefined) write(cell, shown);
    }));
}

// Announces a text once; repeated states are silent.
function say(text) {
    if (state.said !== text) { state.said = text; write($("status"), text); }
}

// Announces a state of the connection or the queue, if it is not the one that was announced last.
function sayState(text) {
    if (state.announced !== text) { state.announced = text; say(text); }
}

const notices = new Map();

// Shows a sentence at the top of the page; a null removes it.
function notice(name, text, kind = "") {
    if (text) notices.set(name, { name, text, kind }); else notices.delete(name);
    reconcile($("notices"), [...notices.values()], item => item.name, () => element("p"), (row, item) => {
        row.className = `notice ${item.kind}`;
        write(row, item.text);
    });
}

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
    const points = state.points, end = points.length ? points[points.length - 1].time : 0;
    const highest = Math.max(0, ...points.flatMap(point => lines.map(([name]) => point[name] ?? 0)));
    const parts = [];
    for (const [name, , color] of lines) {
        let part = [], last = 0;
        // While no page was open the server did not look: there a line has a gap.
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
    const last = state.points.length ? state.points[state.points.length - 1].time : 0;
    const fresh = points.filter(point => point.time > last);
    if (fresh.length) state.points = [...state.points, ...fresh].slice(-maximumPoints);
    state.points = state.points.filter(point => point.time > state.points[state.points.length - 1].time - 3600);
    if (fresh.length || !$("charts").byKey) {
        reconcile($("charts"), charts, item => item.title, () => element("figure"), chart);
    }
}

const leftOf = batch => batch.state === "finished" ? "ended" : batch.state === "damaged" ? "its key cannot be read" :
    batch.seconds_left != null ? `about ${time(batch.seconds_left)}` :
    batch.submitted === batch.ended ? "waits for more jobs" :
    batch.jobs_per_second === 0 ? "no job has ended for a minute" : "not known yet";

function showBatches({ batches, batch_count: all }) {
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
        ["Speed", "", batch => batch.state === "finished" ? "" : speed(batch.jobs_per_second)],
        ["Time left", "", leftOf],
    ], batches ?? [], batch => batch.batch);
}

const jobOf = job => (job.batch ? `${job.batch}/${job.id}` : job.id) + (job.host ? ` from ${job.host}` : "")
    + (job.attempt > 1 ? `, attempt ${job.attempt}` : "");

function doingOf(worker) {
    if (!worker.is_living) return `silent for ${time(worker.silent)}: it died or hangs; its jobs go to others`;
    if (worker.jobs.length === 0) return worker.running ? counted(worker.running, "job") : "waits for jobs";
    const rest = worker.running - worker.jobs.length;
    return worker.jobs.map(jobOf).join("; ") + (rest > 0 ? `; and ${counted(rest, "more job")}` : "");
}

function showWorkers({ workers, worker_count: all, living_workers: living, coordinators, queue }) {
    const waits = queue.ready + queue.intake + queue.staged > 0;
    write($("workers-text"), all === 0
        ? `No worker has signed on${waits ? ", so that jobs wait" : ""}. Start one with megaton worker.`
        : `${counted(living, "worker")} and ${counted(coordinators, "coordinator")} run.`);
    table($("workers"), all > workers.length ? `${workers.length} of ${count(all)} workers, the busiest first`
        : "All workers, the busiest first", [
        ["Worker", "", worker => worker.name],
        ["Version", "", worker => worker.version ?? "not known"],
        ["Jobs", "number", worker => count(worker.running)],
        ["Now", "", (worker, cell) => {
            cell.classList.toggle("bad-text", !worker.is_living);
            return doingOf(worker);
        }],
    ], workers, worker => worker.name);
}

function circuitOf(host) {
    if (host.open) return `open; a probe in ${time(host.open_seconds)}`;
    return host.blocked_seconds > 0 ? `closed; the host asked for a pause of ${time(host.blocked_seconds)}` : "closed";
}

function showHosts({ hosts }) {
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
    table($("servers"), "Servers of the shared cache", [
        ["Server", "", server => server.address],
        ["Memory", "", (server, cell) => {
            cell.classList.toggle("bad-text", server.used == null);
            if (server.used == null) return `not known: ${server.problem ?? "it does not answer"}`;
            return size(server.used) + (server.limit ? ` of ${size(server.limit)}` : ", without a limit");
        }],
        ["Evicted keys", "number", server => server.used == null ? "" : count(server.evictions)],
    ], cache.servers, server => server.address);
}

// MARK: Failures

const nameOf = job => job.batch ? `${job.batch}/${job.id}` : job.id;

function showFailures({ failures }) {
    const { total, examined, causes, others } = failures;
    const right = state.mayChange ? "" : " A token with the scope admin can requeue them here.";
    write($("failures-text"), total === 0 ? "No job is dead." :
        (total > examined ? `${counted(total, "job")} failed for good; the newest ${examined} are shown by cause.`
            : `${counted(total, "job")} failed for good.`)
        + (others ? ` ${counted(others, "job")} have other causes.` : "") + right);
    reconcile($("failures"), causes, cause => cause.code, makeCause, (row, cause) => {
        const { title, message, all, images } = row.parts;
        write(title, `${cause.code}: ${counted(cause.count, "job")}`);
        write(message, cause.message);
        write(all, `Requeue all jobs with ${cause.code}`);
        all.hidden = !state.mayChange;
        table(images, cause.count > cause.jobs.length
            ? `The newest ${cause.jobs.length} images of ${cause.code}` : `Images of ${cause.code}`, [
            ["Image", "", job => job.source ?? "The job cannot be read"],
            ["Job", "", nameOf],
            ["Reason", "", job => job.message],
            ["Attempts", "number", job => count(job.attempts)],
            ["Failed", "", job => date(job.died)],
            ["Action", "", showAction],
        ], cause.jobs, job => JSON.stringify([job.batch, job.id, job.died]));
    });
}

function makeCause({ code }) {
    const parts = { title: element("summary"), message: element("p"), all: element("button", { type: "button" }),
        images: element("div") };
    parts.all.addEventListener("click", () => requeue(parts.all, { error: code }, `all jobs with ${code}`));
    const row = element("details", {}, parts.title, parts.message, parts.all, parts.images);
    row.parts = parts;
    return row;
}

function showAction(job, cell) {
    if (!cell.button) {
        cell.button = element("button", { type: "button", textContent: "Requeue" });
        cell.words = element("span", { className: "quiet", textContent: "needs the scope admin" });
        cell.button.addEventListener("click", () => requeue(cell.button, { ids: [cell.name] }, cell.name));
        cell.append(cell.button, cell.words);
    }
    cell.name = nameOf(job);
    cell.button.setAttribute("aria-label", `Requeue ${cell.name}`);
    cell.button.hidden = !state.mayChange;
    cell.words.hidden = state.mayChange;
}

// The buttons that were pressed and have no answer yet are disabled; the list itself follows within 10 s.
async function requeue(button, choice, name) {
    button.disabled = true;
    let text, kind = "bad";
    try {
        const response = await fetch(`${api}dead/requeue`, { method: "POST", body: JSON.stringify(choice),
            headers: { ...authorization(), "Content-Type": "application/json" }, cache: "no-store",
            signal: AbortSignal.timeout(longestDelay) });
        const body = await response.json().catch(() => ({}));
        if (response.ok) {
            text = `${counted(body.requeued, "job")} of ${count(body.selected)} requeued: ${name}. The page shows it `
                + "within 10 seconds.";
            kind = "good";
        } else {
            text = `Not requeued: ${name}. ${body.detail ?? `The server answered with the status ${response.status}.`}`;
        }
    } catch {
        text = `It is not known whether ${name} was requeued: the server did not answer. Look again in 10 seconds.`;
    }
    button.disabled = false;
    notice("requeue", text, kind);
    say(text);
}

// MARK: The stream

function readToken() {
    try { return sessionStorage.getItem(tokenKey); } catch { return state.token ?? null; }
}

function keepToken(token) {
    state.token = token;
    try {
        if (token) sessionStorage.setItem(tokenKey, token); else sessionStorage.removeItem(tokenKey);
    } catch { /* Storage is switched off: the token lasts as long as the page. */ }
}

function authorization() {
    const token = readToken();
    return token ? { Authorization: `Bearer ${token}` } : {};
}

const handlers = {
    begin({ may_change: mayChange, history }) {
        state.mayChange = mayChange;
        state.points = history.slice(-maximumPoints);
        $("charts").byKey?.forEach((figure, title) => chart(figure, charts.find(item => item.title === title)));
    },
    snapshot(snapshot) {
        $("access").hidden = true;
        $("content").hidden = false;
        $("forget").hidden = !readToken();
        notice("unavailable", null);
        write($("connection"), "Live");
        for (const show of [showQueue, showBatches, showWorkers, showFailures, showHosts, showCache]) show(snapshot);
        write($("updated"), `State of ${clock(snapshot.time)}, by the clock of the server.`);
        const { pauses } = snapshot.queue;
        sayState(pauses.length === 0 ? "Connected."
            : `Connected. The queue ${pauses.includes("paused") ? "is paused" : "drains"}.`);
    },
    unavailable({ detail }) {
        write($("connection"), "Redis does not answer");
        notice("unavailable", detail, "bad");
        sayState(detail);
    },
};

// Handles the events of a text, and returns the rest of it behind the last one.
function handle(text) {
    const blocks = text.split("\n\n"), rest = blocks.pop();
    for (const block of blocks) {
        let name = "", data = "";
        for (const line of block.split("\n")) {
            if (line.startsWith("event: ")) name = line.slice(7);
            if (line.startsWith("data: ")) data += line.slice(6);
        }
        try {
            if (handlers[name]) handlers[name](JSON.parse(data));
        } catch (error) {
            // A TypeError would look like one of the connection.
            throw new Error(`event ${name}: ${error.message}`, { cause: error });
        }
    }
    if (rest.length > maximumEvent) throw new Error("an event is too long");
    return rest;
}

// The token is missing or refused: connecting again would not help, and would count as an attempt.
function ask(status, detail) {
    const hadToken = readToken() != null;
    if (status === 401) keepToken(null);
    state.ended = true;
    $("content").hidden = true;
    $("access").hidden = false;
    $("forget").hidden = true;
    write($("connection"), "Not connected");
    if (hadToken || status !== 401) {
        const text = `The token was refused: ${detail}`;
        write($("access-reason"), text);
        say(text);
    }
    $("token").focus();
}

async function connect() {
    stop();
    const stream = new AbortController();
    state.stream = stream;
    state.ended = false;
    let watch = null, failed = "The connection to the server is interrupted.";
    const alive = () => { clearTimeout(watch); watch = setTimeout(() => stream.abort(), silenceLimit); };
    try {
        alive();
        const response = await fetch(`${api}dashboard/events`, { headers: authorization(), cache: "no-store",
            signal: stream.signal });
        if (!response.ok) {
            const { detail } = await response.json().catch(() => ({}));
            failed = detail ?? `The server answered with the status ${response.status}.`;
            if ([400, 401, 403].includes(response.status)) ask(response.status, failed);
            const pause = Number(response.headers.get("Retry-After"));
            if (pause > 0) state.delay = Math.max(state.delay, Math.min(pause * 1000, 60000));
            throw new Error(failed);
        }
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let text = ""; ;) {
            const { done, value } = await reader.read();
            if (done) break;
            alive();
            text = handle(text + value);
            state.delay = shortestDelay;
            notice("connection", null);
        }
        failed = null;
    } catch (error) {
        if (!(error instanceof TypeError) && error.name !== "AbortError" && error.message !== failed) {
            console.error(error);
            failed = "The server sent something that this page does not understand; reload the page.";
        }
    } finally {
        clearTimeout(watch);
        // Ends the response also if reading has failed.
        stream.abort();
    }
    // Another connection has begun, or the page is hidden.
    if (state.stream !== stream || state.ended) return;
    if (failed) {
        write($("connection"), "Connecting again …");
        notice("connection", `${failed} The page shows the last known state and connects again.`, "bad");
        sayState(failed);
    }
    state.timer = setTimeout(connect, state.delay * (1 + Math.random() / 4));
    state.delay = Math.min(state.delay * 2, longestDelay);
}

// Ends the connection. The server reads nothing more if no other page is open.
function stop() {
    clearTimeout(state.timer);
    const { stream } = state;
    state.stream = null;
    stream?.abort();
}

$("token-form").addEventListener("submit", event => {
    event.preventDefault();
    const token = $("token").value.trim();
    $("token").value = "";
    // A header can have no other characters.
    if (!/^[-A-Za-z0-9._~+\/]+=*$/.test(token)) {
        write($("access-reason"), "A token has only letters, digits and - . _ ~ + / and ends with any number of =.");
        return say($("access-reason").textContent);
    }
    keepToken(token);
    write($("connection"), "Connecting …");
    state.delay = shortestDelay;
    return connect();
});

$("forget").addEventListener("click", () => {
    stop();
    keepToken(null);
    location.reload();
});

const resume = () => { if (!state.ended && !state.stream) connect(); };
addEventListener("pagehide", stop);
addEventListener("pageshow", event => { if (event.persisted) resume(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else resume(); });
connect();
