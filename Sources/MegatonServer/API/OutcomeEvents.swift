internal import Foundation
internal import Logging
internal import MegatonCluster
internal import MegatonRedis
internal import NIOCore
internal import ServiceLifecycle

/// The outcomes of a batch as server-sent events, with its counters in between.
/// https://html.spec.whatwg.org/multipage/server-sent-events.html
///
/// Events: `outcome` with an outcome, and the position behind it as its id; `progress` with the counters; `missing`
/// with the number of outcomes that were deleted unread; `reset` if Redis has returned to an earlier state; `end` with
/// the counters of a batch that has ended; `error` with a sentence. The stream ends after the last two.
struct OutcomeEvents: Sendable {
    let view: OutcomeView
    /// Whether the secrets in the URLs of jobs are hidden from the client.
    let hidesSecrets: Bool
    /// Whether the token of the client is still valid: a batch may be open for days.
    let isAllowed: @Sendable () -> Bool
    /// Limits the number of large pages that clients have not read yet, of all streams.
    let largePages: RequestLimit
    let logger: Logger

    /// Interval at which a stream without events has a comment, so that proxies do not close it.
    static let keepAlive: Duration = .seconds(15)
    /// Shortest interval between two events with counters.
    static let progressInterval: Duration = .seconds(1)
    /// Time for which the stream waits for a Redis that does not answer.
    static let failureLimit: Duration = .seconds(60)
    /// Number of bytes of outcomes at which a page ends: each stream whose client reads slowly keeps one in memory.
    private static let pageBytes = 64 * 1024
    /// Size of the events of a page from which it is a large one: one of its outcomes has more bytes than a page.
    private static let largeSize = 2 * pageBytes

    private static let invalidToken =
        "The token is no longer valid: it was removed or changed, or has expired. Ask the server's operator for "
        + "another, and connect again with the id of the last event."

    private struct Missing: Encodable {
        let missing: Int
    }

    private struct Failure: Encodable {
        let detail: String
    }

    /// Progress of one stream.
    private struct State {
        var position: OutcomePosition
        var pace = OutcomePace()
        var lastWrite = ContinuousClock.now
        /// The counters that the client has, and when it got them.
        var shown: (report: BatchReport, time: ContinuousClock.Instant)?
        /// Since when Redis has not answered.
        var failingSince: ContinuousClock.Instant?
    }

    /// Writes events until the batch has ended, the server shuts down, or the task is cancelled.
    func write(from position: OutcomePosition, to writer: inout EventWriter) async throws {
        var state = State(position: position)
        while !Task.isShuttingDownGracefully {
            try Task.checkCancellation()
            guard isAllowed() else {
                var events = ByteBuffer()
                try Self.add("error", Failure(detail: Self.invalidToken), to: &events)
                return try await writer.write(events)
            }
            // A call of its own, so that no events are in memory during the pause.
            guard let pause = try await step(&state, &writer) else { return }
            if pause == .zero { continue }
            if state.lastWrite.duration(to: .now) >= Self.keepAlive {
                state.lastWrite = .now
                try await writer.write(ByteBuffer(string: ": keep-alive\n\n"))
            }
            try await Task.sleep(for: pause)
        }
    }

    /// Asks Redis once, and writes the events.
    ///
    /// - Returns: the time until the next question; nil behind the last event.
    private func step(_ state: inout State, _ writer: inout EventWriter) async throws -> Duration? {
        var next = state
        let (events, isOver, isBehind) = try await round(&next)
        let isLarge = events.readableBytes > Self.largeSize
        let place = isLarge ? (try? largePages.enter()) : nil
        defer { withExtendedLifetime(place) {} }
        // Its outcomes are read again when there is a place.
        if isLarge && place == nil { return state.pace.next() }
        state = next
        if events.readableBytes > 0 {
            state.lastWrite = .now
            try await writer.write(events)
        }
        if isOver { return nil }
        return isBehind ? Duration.zero : state.pace.next()
    }

    /// Asks Redis once.
    ///
    /// - Returns: the events to write, whether they are the last ones, and whether Redis has more outcomes already.
    private func round(_ state: inout State) async throws -> (ByteBuffer, isOver: Bool, isBehind: Bool) {
        var events = ByteBuffer()
        let page: OutcomeView.Page
        do throws(RedisError) {
            page = try await view.page(from: state.position, maximumBytes: Self.pageBytes)
        } catch {
            let since = state.failingSince ?? .now
            state.failingSince = since
            if error.isTransient, since.duration(to: .now) < Self.failureLimit { return (events, false, false) }
            logger.warning("event stream failed", metadata: ["batch": "\(view.batch)", "error": "\(error)"])
            try Self.add("error", Failure(detail: APIError(error).detail), to: &events)
            return (events, true, false)
        }
        state.failingSince = nil
        guard page.counters.isKnown else {
            try Self.add("error", Failure(detail: APIError.unknownBatch(view.batch).detail), to: &events)
            return (events, true, false)
        }
        if page.wentBack { Self.add("reset", json: Data("{}".utf8), to: &events) }
        if page.missing > 0 { try Self.add("missing", Missing(missing: page.missing), to: &events) }
        for part in page.parts {
            for (index, line) in part.lines.enumerated() {
                state.position[part.shard] = part.first + index + 1
                let json = APIResponse.line(line)
                let shown = hidesSecrets ? RedactedJSON.data(json) : json
                Self.add("outcome", json: shown, id: state.position, to: &events)
            }
        }
        state.position = page.next
        if page.count > 0 { state.pace.reset() }
        let report = BatchReport(BatchSummary(name: view.batch, counters: page.counters))
        if page.isLast {
            try Self.add("end", report, to: &events)
            return (events, true, false)
        }
        let isDue = state.shown.map { $0.report != report && $0.time.duration(to: .now) >= Self.progressInterval }
        if isDue ?? true {
            state.shown = (report, .now)
            try Self.add("progress", report, to: &events)
        }
        return (events, false, !page.isComplete)
    }

    private static func add(_ event: String, _ value: some Encodable, to events: inout ByteBuffer) throws {
        add(event, json: try APIResponse.data(value), to: &events)
    }

    private static func add(
        _ event: String,
        json: Data,
        id: OutcomePosition? = nil,
        to events: inout ByteBuffer
    ) {
        events.writeString("event: \(event)\n")
        if let id { events.writeString("id: \(id)\n") }
        events.writeString("data: ")
        events.writeBytes(json)
        events.writeString("\n\n")
    }
}

/// Intervals at which Redis is asked for the outcomes of a batch: short after one has come, and longer while none does,
/// so that a thousand readers of idle batches cost a few thousand commands per second.
struct OutcomePace: Sendable {
    private static let shortest: Duration = .milliseconds(50)
    private static let longest: Duration = .seconds(1)

    private var interval = Self.shortest

    /// The pause before the next question; each is twice as long as the one before.
    mutating func next() -> Duration {
        defer { interval = min(interval * 2, Self.longest) }
        return interval
    }

    /// Begins again with the shortest pause.
    mutating func reset() { interval = Self.shortest }
}
