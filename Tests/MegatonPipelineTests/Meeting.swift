import Foundation

/// Holds threads until so many of them are here.
final class Meeting: Sendable {
    private let group = DispatchGroup()

    init(_ count: Int) { for _ in 0..<count { group.enter() } }

    func join() {
        group.leave()
        group.wait()
    }
}
