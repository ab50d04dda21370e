"""The result as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cases import PLANS

TITLES = {name: f"{name}: {plan.title}" for name, plan in PLANS.items()}
HEADINGS = (
    "contestant", "images/s", "min – max", "of Megaton", "CPU ms/image", "peak MiB", "GETs/job", "PSNR dB",
    "SSIMULACRA2", "linear dB", "linear S2", "KiB/output",
)  # fmt: skip


def text(report: dict[str, Any]) -> str:
    """The whole report as Markdown whose columns are aligned in a terminal too."""
    machine = report["machine"]
    lines = [
        f"{report['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['system']}, {machine['kernel']};",
        ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + ".",
        "; ".join(
            f"{kind}: {pictures['count']} images, {pictures['progressive']} progressive, "
            f"median {pictures['megapixels_median']} MP"
            for kind, pictures in report["pictures"].items()
        )
        + f"; rounds: {report['rounds']}.",
        "",
    ]
    for case, rows in report["cases"].items():
        if case in TITLES:
            lines += [f"### {TITLES[case]}", "", *table(rows), *whole_path(rows), *failures(rows), ""]
    again = report["cases"].get("again")
    if again and "failure" in again:
        lines += [f"again failed: {again['failure']}", ""]
    elif again:
        lines += [
            "### again: the same batch a second time, cache kept",
            "",
            f"{again['jobs']} jobs: {again['first_seconds']:.2f} s, then {again['second_seconds']:.2f} s: "
            f"{again['first_over_second']:.1f} times faster, {_span(again['second_gets'])} GETs.",
            "",
        ]
    repeat = report["cases"].get("repeat")
    if repeat and "failure" in repeat:
        lines += [f"repeat failed: {repeat['failure']}", ""]
    elif repeat:
        lines += [
            "### repeat: many jobs over few URLs",
            "",
            f"{repeat['urls']} jobs over as many URLs: {repeat['few_seconds']:.2f} s, again, hits only: "
            f"{repeat['few_hits_seconds']:.2f} s. {repeat['jobs']} jobs over as "
            f"many other URLs: {repeat['first_seconds']:.2f} s, {_span(repeat['first_gets'])} GETs, "
            f"{_span(repeat['first_renders'])} renders. The same again, hits only: {repeat['hits_seconds']:.2f} s, "
            f"{_span(repeat['hits_gets'])} GETs, {_span(repeat['hits_renders'])} renders. "
            f"That is {repeat['first_over_few_and_hits']:.2f} times the sum of the times of the few jobs and the hits.",
            "",
        ]
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """An aligned Markdown table of the contestants that did not fail."""
    cells = [HEADINGS] + [_cells(row) for row in rows if "failure" not in row]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = ["| " + " | ".join(aligned(row, widths)) + " |" for row in cells]
    lines.insert(1, rule(widths))
    if any(not row["whole_path"] for row in rows):
        lines += ["", "\\* local files: no fetching, no queue. A ceiling, not a competitor."]
    return lines


def whole_path(rows: list[dict[str, Any]]) -> list[str]:
    """Rate of the whole path as a fraction of the same engine alone."""
    alone = {row["engine_of"]: row for row in rows if row.get("whole_path_share") is not None}
    parts = [
        f"{row['title']} reaches {alone[row['name']]['whole_path_share']:.2f} of {alone[row['name']]['title']}"
        for row in rows
        if row["name"] in alone
    ]
    return ["", "The whole path: " + "; ".join(parts) + "."] if parts else []


def failures(rows: list[dict[str, Any]]) -> list[str]:
    """The failures with their reasons."""
    lines = []
    for row in rows:
        if "failure" in row:
            lines += ["", f"{row['title']} failed: {row['failure']}"]
    return lines


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    rate, quality, ratio = row["images_per_second"], row["quality"], row["ratio_to_megaton"]
    cpu, peak, size = row["cpu_seconds_per_image"], row["peak_memory_bytes"], row["bytes_per_output"]
    return (
        row["title"] + ("" if row["whole_path"] else " *"),
        f"{rate['median']:.1f}",
        f"{rate['min']:.1f} – {rate['max']:.1f}",
        f"{ratio:.2f}" if ratio is not None else "–",
        f"{cpu * 1000:.1f}" if cpu is not None else "–",
        f"{peak / 2**20:.0f}" if peak is not None else "–",
        f"{row['origin_gets'] / row['jobs']:.2f}" if row["whole_path"] else "–",
        f"{quality['psnr']:.1f}" if quality else "–",
        f"{quality['ssimulacra2']:.1f}" if quality else "–",
        f"{quality['psnr_linear']:.1f}" if quality else "–",
        f"{quality['ssimulacra2_linear']:.1f}" if quality else "–",
        f"{size / 1024:.1f}" if size is not None else "–",
    )


def aligned(row: Sequence[str], widths: list[int]) -> list[str]:
    """Aligns the first column to the left, figures to the right."""
    return [
        cell.rjust(width) if index else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def rule(widths: list[int]) -> str:
    """The line below the headings."""
    return "|" + "|".join("-" * (w + 2) if not i else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"


def _span(values: list[int]) -> str:
    """One figure if all rounds had the same, otherwise the range."""
    return str(values[0]) if len(set(values)) == 1 else f"{min(values)} – {max(values)}"
