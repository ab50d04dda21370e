import Logging
import Synchronization
import Testing

@testable import MegatonCommandLine

/// Equal lines of a log are limited.
@Suite struct RepeatLimitTests {
    /// Collects messages with the number of those left out before them.
    private struct Collector: LogHandler {
        let events: Events
        var logLevel = Logger.Level.trace
        var metadata = Logger.Metadata()
        var metadataProvider: Logger.MetadataProvider?
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { events.add("\(event.message)", event.metadata?["omitted"].map { "\($0)" }) }
    }

    private final class Events: Sendable {
        private let events = Mutex<[(message: String, omitted: String?)]>([])
        var all: [(message: String, omitted: String?)] { events.withLock { $0 } }
        func add(_ message: String, _ omitted: String?) { events.withLock { $0.append((message, omitted)) } }
    }

    private final class Time: Sendable {
        private let value = Mutex(ContinuousClock.now)
        var now: ContinuousClock.Instant { value.withLock { $0 } }
        func advance(_ duration: Duration) { value.withLock { $0 += duration } }
    }

    private let events = Events()
    private let time = Time()

    private func logger() -> Logger {
        let counts = RepeatCounts(now: { [time] in time.now })
        return Logger(label: "test") { _ in RepeatLimit(Collector(events: events), sharing: counts) }
    }

    @Test func aMessageIsLimitedAndTheNextOneCountsTheOthers() {
        let logger = logger()
        for _ in 1...RepeatCounts.burst + 7 { logger.warning("Redis is away") }
        #expect(events.all.count == RepeatCounts.burst)
        logger.warning("another")
        #expect(events.all.last?.message == "another" && events.all.last?.omitted == nil)
        time.advance(RepeatCounts.interval)
        logger.warning("Redis is away")
        #expect(events.all.last?.omitted == "7")
        logger.warning("Redis is away")
        #expect(events.all.last?.omitted == nil)
    }

    /// Each line about a job says something else.
    @Test func linesAboutJobsPass() {
        let logger = logger()
        for job in 1...100 { logger.error("a job has failed for good", metadata: ["job.id": "\(job)"]) }
        #expect(events.all.count == 100)
    }

    /// A change by the holder of a token is never left out.
    @Test func linesAboutChangesPass() {
        let logger = logger()
        for _ in 1...100 { logger.notice("the queue was changed", metadata: ["token": "operator"]) }
        #expect(events.all.count == 100)
    }

    /// Messages with numbers in their text must not fill the memory.
    @Test func messagesBeyondTheMaximumPass() {
        let logger = logger()
        for number in 1...RepeatCounts.maximumMessages + 50 { logger.info("message \(number)") }
        #expect(events.all.count == RepeatCounts.maximumMessages + 50)
        for _ in 1...RepeatCounts.burst { logger.info("message 1") }
        #expect(events.all.count == RepeatCounts.maximumMessages + 50 + RepeatCounts.burst - 1)
    }

    @Test func levelsAreCountedApart() {
        let logger = logger()
        for _ in 1...RepeatCounts.burst {
            logger.info("x")
            logger.error("x")
        }
        #expect(events.all.count == 2 * RepeatCounts.burst)
    }
}
