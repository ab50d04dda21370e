import Synchronization

/// Values sent to an origin, in order.
final class Notes: Sendable {
    private let noted = Mutex<[String?]>([])

    var values: [String?] { noted.withLock { $0 } }

    func note(_ value: String?) { noted.withLock { $0.append(value) } }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
