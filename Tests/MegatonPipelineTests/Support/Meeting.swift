import Foundation

/// A barrier: holds threads until a given number of them have arrived.
final class Meeting: Sendable {
    private let group = DispatchGroup()

    init(_ count: Int) { for _ in 0..<count { group.enter() } }

    func join() {
        group.leave()
        group.wait()
    }
}
