// The dashboard of megaton serve: the token, the stream of states, and failed jobs, which can be requeued. It reads
// GET /api/v1/dashboard/events by fetch(), which can send a token, as EventSource cannot.
import { $, clock, count, counted, date, element, notice, noticeCount, reconcile, removeNotices, say, sayState, table,
    write } from "./elements.js";
import { showHistory, showSections } from "./sections.js";
import { showThumbnails } from "./thumbnails.js";

const api = "/api/v1/";
const tokenKey = "megaton-token";
// Characters that a stream may send without the end of an event.
const maximumEvent = 4 * 1024 * 1024;
// Delays before the next connection, ms.
const shortestDelay = 1000, longestDelay = 30000;
// The server sends an event every 2 s, and gives up a reading after 5 s.
const silenceLimit = 20000;
// Time for which the result of a button is shown, ms.
const resultTime = 60000;

const state = { mayChange: false, stream: null, timer: null, delay: shortestDelay, ended: false, token: null,
    result: null };

// MARK: The token

function readToken() {
    // The storage may refuse to keep it, or be switched off.
    try { return state.token ?? sessionStorage.getItem(tokenKey); } catch { return state.token; }
}

function keepToken(token) {
    state.token = token;
    try {
        if (token) sessionStorage.setItem(tokenKey, token); else sessionStorage.removeItem(tokenKey);
    } catch { /* The token lasts as long as the page. */ }
}

function authorization() {
    const token = readToken();
    return token ? { Authorization: `Bearer ${token}` } : {};
}

// MARK: Failures

const nameOf = job => job.batch ? `${job.batch}/${job.id}` : job.id;

function showFailures({ failures }) {
    const { total, examined, causes, others } = failures;
    const poison = causes.find(cause => cause.code === "poison");
    notice("poison", !poison ? null : `${counted(poison.count, "dead job")} killed the processes of workers: `
        + "see the cause poison, and inspect each image before its job is requeued.", "bad");
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
    clearTimeout(state.result);
    state.result = setTimeout(() => notice("requeue", null), resultTime);
    say(text);
}

// MARK: The stream

const handlers = {
    begin({ may_change: mayChange, history }) {
        state.mayChange = mayChange;
        notice("connection", null);
        // The focus would be lost with the form.
        if ($("access").contains(document.activeElement)) $("main").focus();
        $("access").hidden = true;
        $("forget").hidden = !readToken();
        showHistory(history);
    },
    snapshot(snapshot) {
        $("content").hidden = false;
        notice("unavailable", null);
        write($("connection"), "Live");
        showSections(snapshot);
        showThumbnails(snapshot);
        showFailures(snapshot);
        write($("updated"), `State of ${clock(snapshot.time)}, by the clock of the server.`);
        const { pauses } = snapshot.queue;
        // The result of a button was announced by itself.
        const all = noticeCount("requeue");
        sayState("Connected."
            + (pauses.length ? ` The queue ${pauses.includes("paused") ? "is paused" : "drains"}.` : "")
            + (all ? ` ${counted(all, "notice")} at the top of the page.` : ""));
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
    removeNotices();
    write($("updated"), "");
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

// Ends the connection. The server reads the cluster more seldom if no other page is open.
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
