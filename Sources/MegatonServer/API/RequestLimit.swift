internal import MegatonCore
import Synchronization

/// Limits the number of requests of a kind that are served at a time, as each holds memory or asks Redis repeatedly.
final class RequestLimit: Sendable {
    /// A place of a request, which is free again when its last reference has gone: also if a response was never sent.
    final class Place: Sendable {
        private let limit: RequestLimit

        fileprivate init(_ limit: RequestLimit) { self.limit = limit }

        deinit { limit.taken.withLock { $0 -= 1 } }
    }

    let maximum: Int
    /// The kind of requests, in the plural.
    private let kind: String
    private let taken = Mutex(0)

    init(_ maximum: Int, of kind: String) {
        self.maximum = maximum
        self.kind = kind
    }

    /// Number of places that are taken.
    var count: Int { taken.withLock { $0 } }

    /// Takes a place.
    ///
    /// - Throws: an error with the status 503 if there is none.
    func enter() throws(APIError) -> Place {
        let isFree = taken.withLock { taken in
            guard taken < maximum else { return false }
            taken += 1
            return true
        }
        guard isFree else {
            throw .unavailable(
                "The server has \(maximum) \(kind) open, as many as it allows; try again after the time of Retry-After."
            )
        }
        return Place(self)
    }
}
