import Synchronization

/// A flag that a test sets while other threads read it.
public final class Switch: Sendable {
    private let state = Atomic(false)

    public init() {}

    public var isSet: Bool { state.load(ordering: .acquiring) }

    public func set() { state.store(true, ordering: .releasing) }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
