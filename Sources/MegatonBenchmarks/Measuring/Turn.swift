import Synchronization

/// Shared counter: returns 0, 1, 2 … to concurrent callers.
final class Turn: Sendable {
    private let number = Atomic(0)

    func take() -> Int { number.add(1, ordering: .relaxed).oldValue }
}
