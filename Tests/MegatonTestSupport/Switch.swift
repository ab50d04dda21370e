import Synchronization

/// Something that a test changes while others look at it.
public final class Switch: Sendable {
    private let state = Atomic(false)

    public init() {}

    public var isSet: Bool { state.load(ordering: .acquiring) }

    public func set() { state.store(true, ordering: .releasing) }
}
