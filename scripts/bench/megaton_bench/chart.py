"""A bar chart as SVG, written by hand: no library is needed for rectangles."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH = 860
LABELS = 300
VALUES = 110
BAR = 18
STEP = 26

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600; font-size: 15px }
.small { font-size: 11px; fill: #656d76 }
.ours { fill: #d1442f }
.peer { fill: #6e7f91 }
.ceiling { fill: #c9d1d9 }
.span { stroke: #1f2328; stroke-width: 1.2 }
"""


def svg(report: dict[str, Any], titles: dict[str, str]) -> str:
    """A block of bars for each case with contestants; lines on the bars show the slowest and fastest round."""
    parts: list[str] = []
    y = 10
    for case, title in titles.items():
        rows = [row for row in report["cases"].get(case, []) if "failure" not in row]
        if rows:
            y = _block(parts, y, title, rows)
    machine = report["machine"]
    foot = f"{report['date']}, {machine['cpu']}, {machine['cores']} cores, medians, rounds: {report['rounds']}; "
    foot += "pale bars have local files: no fetching, no queue"
    parts.append(f'<text class="small" x="10" y="{y + 12}">{escape(foot)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 24}" '
        f'viewBox="0 0 {WIDTH} {y + 24}" role="img">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _block(parts: list[str], y: int, title: str, rows: list[dict[str, Any]]) -> int:
    """Draws one case; returns the position of the next."""
    parts.append(f'<text class="head" x="10" y="{y + 18}">{escape(title)}</text>')
    y += 32
    scale = (WIDTH - LABELS - VALUES) / max(row["images_per_second"]["max"] for row in rows)
    for row in rows:
        rate = row["images_per_second"]
        kind = "ours" if row["name"].startswith("megaton") else "peer" if row["whole_path"] else "ceiling"
        low, high, end = (LABELS + rate[key] * scale for key in ("min", "max", "median"))
        middle = y + BAR / 2
        parts += [
            f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(row["title"])}</text>',
            f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{end - LABELS:.1f}" height="{BAR}"/>',
            f'<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text x="{max(end, high) + 6:.1f}" y="{y + 14}">{_label(row)}</text>',
        ]
        y += STEP
    return y + 14


def _label(row: dict[str, Any]) -> str:
    ratio = row["ratio_to_megaton"]
    share = f" ({ratio:.2f})" if ratio is not None and row["name"] != "megaton" else ""
    return f"{row['images_per_second']['median']:.0f}/s{share}"
