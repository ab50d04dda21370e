"""Figures and bounds of a scenario."""

import operator

COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}


class NotBuilt(Exception):
    """The program lacks a feature, as its --help shows."""


class Broken(Exception):
    """The scenario did not reach the state that it was to measure."""


class Result:
    """Collects what a scenario measured, and prints it at once."""

    def __init__(self, name):
        self.name = name
        self.rows = []
        self.seconds = 0.0

    def note(self, text):
        print(f"  {text}", flush=True)

    def pace(self, before, during, after, unit="jobs/s"):
        """Paces before, during and after a fault."""
        self.note(f"pace before {before:.1f}, during {during:.1f}, after {after:.1f} {unit}")

    def bound(self, text, value, comparison, limit):
        """A measured value and the limit that it must hold."""
        holds = value is not None and COMPARISONS[comparison](value, limit)
        shown = "none" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
        self._add(text, f"{shown} ({comparison} {limit})", "ok" if holds else "BROKEN")

    def require(self, text, holds, explanation=""):
        """A fact that must hold."""
        self._add(text, "yes" if holds else explanation or "no", "ok" if holds else "BROKEN")

    def broken(self, text):
        self._add("reaches its end", text, "BROKEN")

    def not_built(self, text):
        self._add(text, "--help lacks it", "not built")

    def _add(self, text, measured, verdict):
        self.rows.append((text, measured, verdict))
        print(f"  {verdict}: {text}: {measured}", flush=True)

    @property
    def is_broken(self):
        return any(verdict == "BROKEN" for _, _, verdict in self.rows)


def table(results):
    """The rows of all scenarios, as lines."""
    rows = [("scenario", "seconds", "bound", "measured", "")]
    for result in results:
        for number, (text, measured, verdict) in enumerate(result.rows):
            first = (result.name, f"{result.seconds:.0f}") if number == 0 else ("", "")
            rows.append((*first, text, measured, verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
