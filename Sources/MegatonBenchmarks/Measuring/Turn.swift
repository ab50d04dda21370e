import Synchronization

/// Shared counter: returns 0, 1, 2 … to concurrent callers.
final class SharedCounter: Sendable {
    private let number = Atomic(0)

    func next() -> Int { number.add(1, ordering: .relaxed).oldValue }
}
