"""The result as text."""

from __future__ import annotations

import statistics
from typing import Any

from ..report import aligned, rule
from .hosts import DESCRIPTIONS
from .settings import GOAL

HEADINGS = (
    "program", "seconds", "min – max", "after first request", "accounted", "successes", "damaged", "labeled",
    "requests", "at a time", "a second", "CPU s", "peak MiB",
)  # fmt: skip


def text(report: dict[str, Any]) -> str:
    """The whole report as Markdown whose columns are aligned in a terminal too."""
    machine, world = report["machine"], report["world"]
    lines = [
        f"{report['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['system']}, {machine['kernel']};",
        ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + ".",
        f"{world['lines']} lines, {world['hosts']} hosts, {world['odd_hosts']} of them odd; images of "
        f"{world['image_size']} px, median {world['megapixels_median']} MP; img2dataset with {report['threads']} "
        f"threads in each process; {report['host_concurrency']} requests at a time"
        + (f" and {report['host_rate']:g} a second" if report["host_rate"] else "")
        + f" to one host; rounds: {report['rounds']}.",
        "",
    ]
    names = [name for name, runs in report["programs"].items() if runs["runs"]]
    if names:
        rows = [list(HEADINGS)] + [_cells(report["programs"][name]) for name in names]
        lines += [*_table(rows), "", *_kinds(report, names), "", *_times(report), *_verdict(report)]
    for runs in report["programs"].values():
        if runs["failure"]:
            lines += ["", f"{runs['title']} failed: {runs['failure']}"]
        faults = [fault for one in runs["runs"] for fault in one["faults"]]
        if faults:
            lines += ["", f"{runs['title']} has {len(faults)} faults; the first: {faults[0]}"]
    return "\n".join(lines)


def failures(report: dict[str, Any]) -> bool:
    """Whether a program failed, or left something out."""
    return any(runs["failure"] or any(one["faults"] for one in runs["runs"]) for runs in report["programs"].values())


def ratio(report: dict[str, Any], key: str = "seconds") -> float | None:
    """Median of Megaton's time divided by img2dataset's, within the rounds."""
    runs = [report["programs"].get(name, {"runs": []})["runs"] for name in ("megaton", "img2dataset")]
    ratios = [one[key] / other[key] for one, other in zip(*runs, strict=False)]
    return statistics.median(ratios) if ratios else None


def _median(runs: dict[str, Any], key: str) -> float:
    return float(statistics.median(one[key] for one in runs["runs"]))


def _cells(runs: dict[str, Any]) -> list[str]:
    times = [one["seconds"] for one in runs["runs"]]
    return [
        runs["title"],
        f"{_median(runs, 'seconds'):.1f}",
        f"{min(times):.1f} – {max(times):.1f}",
        f"{_median(runs, 'seconds_of_requests'):.1f}",
        *(f"{_median(runs, key):.0f}" for key in ("accounted", "successes", "damaged", "labeled", "requests")),
        *(f"{max(one[key] for one in runs['runs'])}" for key in ("highest_concurrency", "highest_rate")),
        f"{_median(runs, 'cpu_seconds'):.1f}",
        f"{_median(runs, 'peak_bytes') / 2**20:.0f}",
    ]


def _kinds(report: dict[str, Any], names: list[str]) -> list[str]:
    """Images of each kind of host, in the last round."""
    last = {name: report["programs"][name]["runs"][-1] for name in names}
    rows = [["host", "hosts", "lines", *(f"{report['programs'][name]['title']}: images" for name in names)]]
    if "megaton" in names:
        rows[0] += ["otherwise", "last at"]
    for kind, counts in report["world"]["kinds"].items():
        row = [DESCRIPTIONS[kind], str(counts["hosts"]), str(counts["lines"])]
        row += [str(last[name]["images"].get(kind, 0)) for name in names]
        if "megaton" in names:
            codes = last["megaton"]["outcomes"].get(kind, {})
            row.append(", ".join(f"{count} {code}" for code, count in sorted(codes.items()) if code != "done") or "–")
            row.append(f"{last['megaton']['last'][kind]:.1f} s" if kind in last["megaton"]["last"] else "–")
        rows.append(row)
    return _table(rows)


def _times(report: dict[str, Any]) -> list[str]:
    runs = report["programs"].get("megaton", {"runs": []})["runs"]
    if not runs or not all(one["parts"] for one in runs):
        return []
    parts = ", ".join(f"{part} after {statistics.median(one['parts'][part] for one in runs):.1f} s"
                      for part in runs[0]["parts"])  # fmt: skip
    return [f"Lines in the ledger of Megaton: {parts}.", ""]


def _verdict(report: dict[str, Any]) -> list[str]:
    """The conditions of the comparison."""
    found = ratio(report)
    if found is None:
        return []
    megaton, peer = (report["programs"][name] for name in ("megaton", "img2dataset"))
    total = report["world"]["lines"]
    requests = ratio(report, "seconds_of_requests")
    time = f"time {found:.3f} of img2dataset's, at most {GOAL:.3f}; {requests:.3f} after the first request"
    conditions = [
        (time, found <= GOAL),
        ("all lines accounted by both", all(one["accounted"] == total for one in megaton["runs"] + peer["runs"])),
        ("at least as many successes", _median(megaton, "successes") >= _median(peer, "successes")),
        ("labels kept", all(one["labeled"] == sum(one["images"].values()) for one in megaton["runs"])),
        ("report made", all(one["has_report"] for one in megaton["runs"])),
        ("no host asked more often than its limit", not any(one["over_limit"] for one in megaton["runs"])),
    ]
    return [f"- {'yes' if holds else '**no**'}: {condition}" for condition, holds in conditions]


def _table(rows: list[list[str]]) -> list[str]:
    """An aligned Markdown table, its first row the headings; figures are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(aligned(row, widths)) + " |" for row in rows]
    lines.insert(1, rule(widths))
    return lines
