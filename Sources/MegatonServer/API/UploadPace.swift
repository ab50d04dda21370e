internal import HummingbirdCore
internal import MegatonCore
internal import NIOCore
import Synchronization

/// Bound on the time for which the client of an upload may keep the server waiting: a number of seconds, and more for
/// each byte that has come. A client that sends a byte now and then would hold a place for as long as it likes.
///
/// Only the waits for the client count: the server reads no faster than Redis takes the jobs.
struct UploadPace: Sendable {
    /// Time that each upload has.
    let grace: Duration
    /// Bytes for which an upload has a second more.
    let bytesPerSecond: Int
    private var received = 0
    private var waited: Duration = .zero

    init(grace: Duration = .seconds(30), bytesPerSecond: Int = 1024) {
        self.grace = grace
        self.bytesPerSecond = bytesPerSecond
    }

    /// Counts bytes of the body, and the time in which they came.
    mutating func add(_ bytes: Int, within time: Duration) {
        received += bytes
        waited += time
    }

    /// A sentence for a client that is too slow.
    var refusal: String {
        "The request's body came too slowly: it may take \(grace.components.seconds) seconds, and one more for each "
            + "\(bytesPerSecond) bytes."
    }

    /// Time for which the client may still keep the server waiting.
    var timeLeft: Duration { grace + .seconds(received / bytesPerSecond) - waited }
}

/// The pace of one upload, read while the server waits for its client.
final class UploadClock: Sendable {
    private let state: Mutex<(pace: UploadPace, begin: ContinuousClock.Instant?)>
    /// Time until the pace is looked at again while the server does not wait for the client.
    private static let interval: Duration = .seconds(1)

    init(_ pace: UploadPace) { state = Mutex((pace, nil)) }

    /// The next bytes of a body; nil at its end.
    func next(of iterator: inout RequestBody.AsyncIterator) async throws -> ByteBuffer? {
        begin(at: .now)
        let buffer = try await iterator.next()
        end(with: buffer?.readableBytes ?? 0, at: .now)
        return buffer
    }

    /// Returns as soon as the client is too slow, or if the task is cancelled.
    func waitUntilTooSlow() async {
        await repeating {
            let left = timeLeft(at: .now)
            return left > .zero ? left : nil
        }
    }

    /// The server waits for the client from now on.
    func begin(at now: ContinuousClock.Instant) { state.withLock { $0.begin = now } }

    /// Bytes of the body have come, or its end.
    func end(with bytes: Int, at now: ContinuousClock.Instant) {
        state.withLock { state in
            state.pace.add(bytes, within: state.begin.map { $0.duration(to: now) } ?? .zero)
            state.begin = nil
        }
    }

    /// Time after which the client is too slow unless more comes; zero or less if it is.
    func timeLeft(at now: ContinuousClock.Instant) -> Duration {
        state.withLock { state in
            let waiting = state.begin.map { $0.duration(to: now) } ?? .zero
            let left = state.pace.timeLeft - waiting
            // Bytes that have come in time count also if Redis keeps the server busy.
            return state.begin == nil ? max(left, Self.interval) : left
        }
    }
}
