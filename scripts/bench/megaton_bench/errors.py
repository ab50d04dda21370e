"""What can go wrong, in two kinds: with the measurement as a whole, or with one contestant of it."""


class BenchError(Exception):
    """Nothing can be measured: the message is all that the user sees."""


class PeerFailed(Exception):
    """One contestant cannot go on: it is reported as failed, and the others are measured."""
