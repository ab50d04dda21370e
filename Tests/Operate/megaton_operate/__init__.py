"""Measures a cluster as its operator sees it: alerts, dashboard, images, API and faults.

The parts that all of them share are those of Tests/Pace.
"""
