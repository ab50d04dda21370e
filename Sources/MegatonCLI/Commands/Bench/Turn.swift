import Synchronization

/// Whose turn it is: 0, 1, 2 … for all who ask.
final class Turn: Sendable {
    private let number = Atomic(0)

    func take() -> Int { number.add(1, ordering: .relaxed).oldValue }
}
