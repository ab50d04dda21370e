// The last thumbnails of the dashboard: placeholders in a few bytes (ThumbHash), which need no request for an image.
import { $, clock, count, element, reconcile, visible, write } from "./elements.js";

// Pixels of the longer side of a placeholder, which the style enlarges.
const longest = 32;
// Bytes that a hash has before its terms, and with all of them.
const header = 6, maximumBytes = 25;

// The bytes of a Base64 text; null if it is none, or has no room for a header.
function bytes(text) {
    try {
        const decoded = Uint8Array.from(atob(text), character => character.charCodeAt(0));
        return decoded.length < header || decoded.length > maximumBytes ? null : decoded;
    } catch { return null; }
}

// The pixels of a hash, as its author decodes them.
function pixels(hash, width, height) {
    const first = hash[0] | hash[1] << 8 | hash[2] << 16, second = hash[3] | hash[4] << 8;
    const hasAlpha = first >> 23 === 1, isLandscape = second >> 15 === 1, least = hasAlpha ? 5 : 7;
    const across = Math.max(3, isLandscape ? least : second & 7);
    const down = Math.max(3, isLandscape ? second & 7 : least);
    let position = hasAlpha ? 12 : 10;
    const terms = (columns, rows, scale) => {
        const values = [];
        for (let y = 0; y < rows; y += 1) {
            for (let x = y ? 0 : 1; x * rows < columns * (rows - y); x += 1) {
                const nibble = hash[position >> 1] >> (position % 2 * 4) & 15;
                values.push([x, y, (nibble / 7.5 - 1) * scale]);
                position += 1;
            }
        }
        return values;
    };
    // Colors are stored with less contrast than they have.
    const luminance = terms(across, down, (first >> 18 & 31) / 31);
    const yellow = terms(3, 3, (second >> 3 & 63) / 63 * 1.25);
    const red = terms(3, 3, (second >> 9 & 63) / 63 * 1.25);
    const opacity = hasAlpha ? terms(5, 5, (hash[5] >> 4) / 15) : [];
    const waves = size => Array.from({ length: size }, (_, place) => Array.from({ length: 7 }, (_, wave) =>
        Math.cos(Math.PI / size * (place + 0.5) * wave)));
    const wide = waves(width), high = waves(height), image = new Uint8ClampedArray(width * height * 4);
    const sum = (constant, values, x, y) => values.reduce((all, [column, row, value]) =>
        all + value * wide[x][column] * high[y][row] * 2, constant);
    for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) {
            const l = sum((first & 63) / 63, luminance, x, y);
            const p = sum((first >> 6 & 63) / 31.5 - 1, yellow, x, y);
            const q = sum((first >> 12 & 63) / 31.5 - 1, red, x, y);
            const a = hasAlpha ? sum((hash[5] & 15) / 15, opacity, x, y) : 1;
            const b = l - 2 / 3 * p, r = (3 * l - b + q) / 2;
            image.set([r, r - q, b, a].map(value => 255 * value), (y * width + x) * 4);
        }
    }
    return new ImageData(image, width, height);
}

function draw(canvas, { thumb_hash: text, width, height }) {
    const scale = longest / Math.max(width, height);
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    const hash = bytes(text);
    if (hash) canvas.getContext("2d")?.putImageData(pixels(hash, canvas.width, canvas.height), 0, 0);
}

const nameOf = image => image.batch ? `${image.batch}/${image.id}` : image.id;

export function showThumbnails({ thumbnails }) {
    write($("thumbnails-text"), thumbnails.length === 0
        ? "No job with facts about its image has ended yet." : "Placeholders of images whose jobs have ended lately.");
    reconcile($("thumbnails"), thumbnails, image => JSON.stringify([image.batch, image.id, image.time]), image => {
        const canvas = element("canvas", { role: "img" });
        draw(canvas, image);
        canvas.setAttribute("aria-label", `Placeholder of ${visible(image.source)}`);
        return element("li", {}, canvas, element("span"), element("span", { className: "quiet" }));
    }, (row, image) => {
        row.title = visible(image.source);
        write(row.children[1], nameOf(image));
        write(row.children[2], `${count(image.width)} × ${count(image.height)}, ${clock(image.time)}`);
    });
}
