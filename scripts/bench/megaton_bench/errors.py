"""Errors of the whole measurement, and of one contestant."""


class BenchError(Exception):
    """Nothing can be measured; users see the message."""


class PeerFailed(Exception):
    """One contestant cannot continue: it is reported as failed, and the others are measured."""
