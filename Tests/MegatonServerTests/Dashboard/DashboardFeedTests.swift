import Foundation
import Logging
import MegatonRedis
import NIOCore
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// The readings that the pages of the dashboard share.
@Suite(.timeLimit(.minutes(1))) struct DashboardFeedTests {
    /// Readings of an empty cluster, which are counted.
    private final class Source: Sendable {
        private let state = Mutex(0)

        var count: Int { state.withLock { $0 } }

        func read() -> DashboardReader.Reading {
            let number = state.withLock { count in
                count += 1
                return count
            }
            let (status, statistics) = (ClusterStatus(), CacheStatistics(counters: [:]))
            return DashboardReader.Reading(
                snapshot: DashboardSnapshot(
                    time: number,
                    queue: .init(status, ReadyJobs()),
                    batches: [],
                    batchCount: 0,
                    workers: [],
                    workerCount: 0,
                    livingWorkers: 0,
                    coordinators: 0,
                    hosts: .init(restricted: [], restrictedCount: 0, openCount: 0, mostFetched: []),
                    failures: DashboardFailures(NewestDeadLetters()),
                    cache: .init(statistics, [])
                ),
                status: status,
                counters: DashboardCounters()
            )
        }
    }

    private func feed(
        _ interval: Duration,
        _ read: @escaping @Sendable () async throws -> DashboardReader.Reading
    ) -> DashboardFeed {
        DashboardFeed(interval: interval, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, read: read)
    }

    @Test func nothingIsReadWithoutAPage() async {
        let source = Source()
        let feed = feed(.zero) { source.read() }
        #expect(source.count == 0)
        for number in 1...3 {
            let sample = await feed.sample()
            // Each question is one reading, and no reading is without a question.
            #expect(sample.number == number && source.count == number)
        }
    }

    /// Fault: the charts of the last hour were empty when the first page opened.
    @Test func theHistoryGrowsWithoutAPage() async {
        let source = Source()
        let feed = feed(.zero) { source.read() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await feed.run(every: .milliseconds(1)) }
            while await feed.history.points.count < 3 { await Task.yield() }
            group.cancelAll()
        }
        #expect(await feed.history.points.map(\.time).prefix(3) == [1, 2, 3])
    }

    @Test func readingsForTheHistoryAreThoseOfAPage() async {
        let source = Source()
        let feed = feed(.seconds(60)) { source.read() }
        #expect(await feed.sample().number == 1)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await feed.run(every: .milliseconds(1)) }
            for _ in 0..<20 { #expect(await feed.sample().number == 1) }
            group.cancelAll()
        }
        #expect(source.count == 1)
    }

    @Test func twoPagesShareAReading() async {
        let source = Source()
        let feed = feed(.seconds(60)) { source.read() }
        async let first = feed.sample()
        async let second = feed.sample()
        let numbers = await [first.number, second.number, feed.sample().number]
        #expect(numbers == [1, 1, 1] && source.count == 1)
    }

    @Test func aSnapshotIsAnEventWithTheLastPoints() async throws {
        let source = Source()
        let feed = feed(.zero) { source.read() }
        for _ in 0..<5 { _ = await feed.sample() }
        let text = String(buffer: await feed.sample().event)
        #expect(text.hasPrefix("event: snapshot\ndata: {") && text.hasSuffix("}\n\n"))
        let lines = text.split(separator: "\n")
        let json = try #require(lines.last?.dropFirst("data: ".count))
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
        let points = try #require(object?["points"] as? [[String: Any]])
        #expect(points.compactMap { $0["time"] as? Int } == [4, 5, 6])
        #expect(await feed.history.points.count == 6)
    }

    @Test func aFailureIsAnEventWithASentence() async {
        let feed = feed(.zero) { throw RedisError(.timeout, "redis://10.0.0.1:6379 has not answered.") }
        let sample = await feed.sample()
        #expect(sample.snapshot == nil && sample.problem.contains("unreachable, busy or full"))
        let text = String(buffer: sample.event)
        #expect(text.hasPrefix("event: unavailable\ndata: {\"detail\":") && !text.contains("10.0.0.1"))
        #expect(await feed.history.points.isEmpty)
    }

    @Test func failuresAreGroupedByTheirCode() {
        func letter(_ number: Int, _ code: String, _ job: String) -> DeadLetter {
            let content = DeadLetter.Content(code: code, message: "message \(number)", attempts: 1, job: job)
            let json = (try? JSONEncoder().encode(content)) ?? Data()
            return DeadLetter(
                key: "b/\(number)",
                died: Double(number),
                json: .bulk(ByteBuffer(bytes: json))
            )
        }
        let secret = #"{"source":"https://user:word@h.test/a.jpg?sig=1"}"#
        let letters = (0..<30).map { letter($0, $0 < 20 ? "not_found" : "code\($0)", $0 == 0 ? secret : "no job") }
        let failures = DashboardFailures(NewestDeadLetters(letters: letters, total: 70))
        #expect(failures.total == 70 && failures.examined == 30)
        #expect(failures.causes.count == 10 && failures.others == 1)
        let first = failures.causes.first
        #expect(first?.code == "not_found" && first?.count == 20 && first?.jobs.count == 10)
        #expect(first?.jobs.first?.source == "https://h.test/a.jpg?…" && first?.jobs.first?.batch == "b")
        #expect(first?.jobs.last?.source == nil)
        // One that killed processes is shown before all that only failed.
        let poisoned = DashboardFailures(NewestDeadLetters(letters: letters + [letter(30, "poison", "")], total: 31))
        #expect(poisoned.causes.first?.code == "poison" && poisoned.causes.count == 10 && poisoned.others == 2)
    }
}
