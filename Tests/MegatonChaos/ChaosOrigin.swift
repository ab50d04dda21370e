import Foundation
import MegatonTestSupport
import NIOCore
import Synchronization

/// An origin that can be set to misbehave while it serves.
final class ChaosOrigin: Sendable {
    /// A way of responding.
    enum Mood: Sendable {
        case good
        case slow
        case failing
        case broken
    }

    private struct State {
        var mood = Mood.good
        /// Whole responses, by path.
        var good: [String: Int] = [:]
    }

    private let state: StateBox
    let server: OriginServer

    private final class StateBox: Sendable {
        let state = Mutex(State())
    }

    /// Serves one small image at any path.
    init() async throws {
        let box = StateBox()
        let image = TestImage.quarters(width: 64, height: 64)
        state = box
        server = try await OriginServer.start(delay: .milliseconds(400)) { path in
            let mood = box.state.withLock { state in
                if case .good = state.mood { state.good[path, default: 0] += 1 }
                if case .slow = state.mood { state.good[path, default: 0] += 1 }
                return state.mood
            }
            switch mood {
            case .good: return .image(image)
            case .slow: return .image(image)
            case .failing: return .init(status: 503, headers: [("retry-after", "1")])
            case .broken: return .init(body: image.prefix(image.count / 2), announcedLength: image.count)
            }
        }
    }

    func set(_ mood: Mood) {
        state.state.withLock { $0.mood = mood }
        // A slow origin holds its responses until the mood changes.
        if case .slow = mood { server.hold() } else { server.release() }
    }

    /// Number of whole responses for a path.
    func good(_ path: String) -> Int { state.state.withLock { $0.good[path] ?? 0 } }
    /// Number of whole responses in all.
    var good: Int { state.state.withLock { $0.good.values.reduce(0, +) } }
}
