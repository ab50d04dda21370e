/// Delays that double up to a cap, each chosen at random below its bound ("full jitter"), so that clients which lost
/// the same server do not come back together.
public struct Backoff: Sendable {
    private let first: Duration
    private let cap: Duration
    /// For a server that is there and busy: whoever sleeps on loses time from the moment on when it is free, and asking
    /// costs it nothing but a reply.
    private static let busyCap: Duration = .milliseconds(500)
    private var failures = 0

    /// The first bound and the largest one.
    public init(first: Duration = .milliseconds(50), cap: Duration = .seconds(2)) {
        self.first = first
        self.cap = cap
    }

    /// The delay before the next attempt: shorter where the error is that the server is busy (BUSY, LOADING). It has to be
    /// given, lest it is forgotten: nil where there is none.
    public mutating func next(after error: (any Error)?) -> Duration {
        let isBusy = (error as? RedisError)?.code == .busy
        let bound = min(isBusy ? min(cap, Self.busyCap) : cap, first * (1 << min(failures, 16)))
        failures += 1
        return bound * Double.random(in: 0...1)
    }

    /// To be called after a success.
    public mutating func reset() { failures = 0 }
}
