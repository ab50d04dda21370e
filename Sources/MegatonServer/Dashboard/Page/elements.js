// Texts and elements of the dashboard. Texts of jobs come from strangers: each is set as textContent, never as HTML.

// Rows of a list that are shown.
const maximumRows = 200;

export const $ = id => document.getElementById(id);

// MARK: Texts

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const count = number => whole.format(number ?? 0);
export const counted = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;
export const speed = number => number == null ? "not known yet" : `${fine.format(number)} a second`;
export const percent = part => `${whole.format(100 * part)} %`;

export function size(bytes) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit += 1; }
    return `${fine.format(bytes)} ${units[unit]}`;
}

export function time(seconds) {
    if (seconds < 1) return "less than a second";
    if (seconds < 90) return counted(Math.round(seconds), "second");
    if (seconds < 5400) return counted(Math.round(seconds / 60), "minute");
    if (seconds < 172800) return counted(Math.round(seconds / 3600), "hour");
    return counted(Math.round(seconds / 86400), "day");
}

export const clock = seconds => new Date(seconds * 1000).toLocaleTimeString();
export const date = seconds => new Date(seconds * 1000).toLocaleString();

// MARK: Elements

export function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
        if (key in made) made[key] = value; else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
}

// Characters that would reverse or hide the text that follows them; line breaks are spaces in HTML.
const steering = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const visible = text => text.replace(steering, character =>
    `\\u{${character.codePointAt(0).toString(16).toUpperCase()}}`);

// Sets a text only if it has changed, so that selections and screen readers are left alone.
export function write(target, text) {
    const string = visible(String(text));
    if (target.textContent !== string) target.textContent = string;
}

// Makes the children of an element those of a list. An element stays as long as its key is in the list.
export function reconcile(parent, items, key, make, update) {
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
export function table(parent, caption, columns, items, key) {
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

let announced = "";

// Announces a text to screen readers; the same text again is silent.
export function say(text) { write($("status"), text); }

// Announces a state of the connection or the queue, if it is not the one that was announced last.
export function sayState(text) {
    if (announced !== text) { announced = text; say(text); }
}

const notices = new Map();
// Number of notices, without the one of this name.
export const noticeCount = except => notices.size - (notices.has(except) ? 1 : 0);

// Shows a sentence at the top of the page; a null removes it.
export function notice(name, text, kind = "") {
    if (text) notices.set(name, { name, text, kind }); else notices.delete(name);
    reconcile($("notices"), [...notices.values()], item => item.name, () => element("p"), (row, item) => {
        row.className = `notice ${item.kind}`;
        write(row, item.text);
    });
}

export function removeNotices() {
    for (const name of [...notices.keys()]) notice(name, null);
}
