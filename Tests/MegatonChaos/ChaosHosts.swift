import Foundation
import MegatonTestSupport
import NIOCore
import Synchronization

/// Hosts of all kinds beside the ``ChaosOrigin``. The faults do not concern them, so that the outcomes of their jobs
/// are known. Host limits go by port, so that each server is a host of its own.
final class ChaosHosts: Sendable {
    /// Answers at once.
    let fast: OriginServer
    /// Takes two seconds, less than any timeout.
    let slow: OriginServer
    /// Answers 429 with Retry-After beyond some requests in a second.
    let limited: OriginServer
    /// Answers 500.
    let failing: OriginServer
    /// Take a known time each, for measurements.
    let paced: [Paced]

    /// A host whose jobs occupy a place for a known time.
    struct Paced: Sendable {
        let seconds: Double
        let server: OriginServer
    }

    /// Two hosts that no worker has met: the jobs of a dead host that was given up fail at once.
    struct Dead: Sendable {
        /// Refuses connections.
        let refusing: FaultProxy
        /// Accepts requests and never responds.
        let hanging: OriginServer

        func refused(_ path: String) -> String { "http://127.0.0.1:\(refusing.port)\(path)" }
        func unanswered(_ path: String) -> String { hanging.url(path).absoluteString }

        func stop() {
            refusing.stop()
            hanging.stop()
        }
    }

    /// Requests in a second that the limited host answers.
    private static let limit = 20

    init() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        let window = Window()
        fast = try await OriginServer.start(delay: .milliseconds(20)) { _ in .image(image) }
        slow = try await OriginServer.start(delay: .seconds(2)) { _ in .image(image) }
        limited = try await OriginServer.start(delay: .milliseconds(20)) { _ in
            window.takes(Self.limit) ? .image(image) : .init(status: 429, headers: [("retry-after", "1")])
        }
        failing = try await OriginServer.start(delay: .milliseconds(20)) { _ in .init(status: 500) }
        var paced: [Paced] = []
        for milliseconds in [3000, 1000, 500] as [Int64] {
            let server = try await OriginServer.start(delay: .milliseconds(milliseconds)) { _ in .image(image) }
            paced.append(Paced(seconds: Double(milliseconds) / 1000, server: server))
        }
        self.paced = paced
    }

    /// New dead hosts.
    func dead() async throws -> Dead {
        let refusing = try await FaultProxy.start(to: .tcp(host: "127.0.0.1", port: fast.port))
        try await refusing.refuse(true)
        let hanging = try await OriginServer.start { _ in .init() }
        hanging.hold()
        return Dead(refusing: refusing, hanging: hanging)
    }

    func stop() {
        for server in [fast, slow, limited, failing] + paced.map(\.server) { server.stop() }
    }

    /// Requests of the current second.
    private final class Window: Sendable {
        private let state = Mutex((second: 0, count: 0))

        /// Counts a request.
        ///
        /// - Returns: whether it is among the first `limit` of this second.
        func takes(_ limit: Int) -> Bool {
            let second = Int(Date().timeIntervalSince1970)
            return state.withLock { state in
                state = state.second == second ? (second, state.count + 1) : (second, 1)
                return state.count <= limit
            }
        }
    }
}
