internal import Foundation
internal import Logging
internal import MegatonCluster
internal import MegatonCore
internal import MegatonRedis
internal import NIOCore

/// The state of the cluster for all pages that are open: read at most once in an interval, however many there are, so
/// that they cost the control Redis next to nothing. While there is none, ``run(every:)`` reads it more seldom, so that
/// a page has the last hour when it opens.
actor DashboardFeed {
    /// One reading as pages get it. All pages share its bytes.
    struct Sample: Sendable {
        /// Grows with each reading.
        let number: Int
        /// A server-sent event: `snapshot`, or `unavailable` with a sentence.
        let event: ByteBuffer
        /// Nil if the cluster could not be read.
        let snapshot: DashboardSnapshot?
        /// The reason for that; empty if there is none.
        let problem: String
        /// From when the next reading is made, if a page asks for it.
        let staleAt: ContinuousClock.Instant
    }

    /// Time between two readings.
    static let interval: Duration = .seconds(2)
    /// Time after which a reading is given up.
    static let timeLimit: Duration = .seconds(5)
    /// Number of points in each snapshot: a page that reads slowly may miss snapshots, and no point.
    private static let recentPoints = 3

    private let interval: Duration
    private let logger: Logger
    private let read: @Sendable () async throws -> DashboardReader.Reading
    private var last: Sample?
    private var count = 0
    /// The reading that is made now, for which other pages wait.
    private var reading: Task<Sample, Never>?
    private(set) var history = DashboardHistory()

    private struct Problem: Encodable {
        let detail: String
    }

    /// - Parameter read: reads the cluster. At most one call is awaited at a time.
    init(
        interval: Duration = DashboardFeed.interval,
        logger: Logger,
        read: @escaping @Sendable () async throws -> DashboardReader.Reading
    ) {
        self.interval = interval
        self.logger = logger
        self.read = read
    }

    init(_ cluster: ClusterConnection, logger: Logger) {
        let reader = DashboardReader(cluster)
        self.init(logger: logger) { try await reader.read() }
    }

    /// Reads the state at an interval until the task is cancelled. It makes no further reading while a page is open.
    func run(every interval: Duration = DashboardHistory.interval) async {
        await every(interval) { _ = await sample() }
    }

    /// The state of the cluster, at most an interval old.
    func sample() async -> Sample {
        if let last, ContinuousClock.now < last.staleAt { return last }
        if let reading { return await reading.value }
        // Unstructured, as all pages share it: one that is closed must not end it for the others. It is safe because it
        // ends by itself within the time limit, and changes this actor on the actor.
        let task = Task { () -> Sample in
            let read = self.read
            let result = await TimeLimit.run(Self.timeLimit) { () -> Result<DashboardReader.Reading, any Error> in
                do {
                    return .success(try await read())
                } catch {
                    return .failure(error)
                }
            }
            return self.finish(result)
        }
        reading = task
        return await task.value
    }

    /// - Parameter result: nil if the time was over.
    private func finish(_ result: Result<DashboardReader.Reading, any Error>?) -> Sample {
        reading = nil
        count += 1
        let staleAt = ContinuousClock.now + interval
        let sample: Sample
        do {
            guard let result else { throw APIError.unavailable(Self.slow) }
            sample = try Self.sample(snapshot(try result.get()), number: count, staleAt: staleAt)
        } catch {
            logger.debug("the dashboard cannot be updated", metadata: ["error": "\(error)"])
            sample = Self.sample(problem: Self.sentence(error), number: count, staleAt: staleAt)
        }
        last = sample
        return sample
    }

    private func snapshot(_ reading: DashboardReader.Reading) -> DashboardSnapshot {
        var snapshot = reading.snapshot
        if let counters = reading.counters {
            history.add(reading.status, counters, time: snapshot.time, at: .now)
        }
        snapshot.points = Array(history.points.suffix(Self.recentPoints))
        return snapshot
    }

    private static func sample(
        _ snapshot: DashboardSnapshot,
        number: Int,
        staleAt: ContinuousClock.Instant
    ) throws -> Sample {
        let event = try Self.event("snapshot", snapshot)
        return Sample(number: number, event: event, snapshot: snapshot, problem: "", staleAt: staleAt)
    }

    private static func sample(problem: String, number: Int, staleAt: ContinuousClock.Instant) -> Sample {
        // A sentence can always be encoded; without it, the name of the event says enough.
        let event = (try? Self.event("unavailable", Problem(detail: problem))) ?? ByteBuffer()
        return Sample(number: number, event: event, snapshot: nil, problem: problem, staleAt: staleAt)
    }

    private static let slow =
        "The queue's Redis has not answered within \(timeLimit.components.seconds) seconds. The page goes on as soon "
        + "as it does."

    private static func sentence(_ error: any Error) -> String {
        if let error = error as? RedisError, error.isTransient {
            // Its address is for the log.
            return "The queue's Redis is unreachable, busy or full (\(error.code)). The page goes on as soon as it "
                + "answers."
        }
        return APIError(error).detail
    }

    /// A server-sent event with a value as JSON in one line.
    static func event(_ name: String, _ value: some Encodable) throws -> ByteBuffer {
        var event = ByteBuffer(string: "event: \(name)\ndata: ")
        event.writeBytes(try APIResponse.data(value))
        event.writeString("\n\n")
        return event
    }
}
