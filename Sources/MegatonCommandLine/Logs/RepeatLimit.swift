import Foundation
package import Logging
import MegatonCore
import Synchronization

/// Passes on a message at most ``burst`` times in ``interval``; then it counts the others, and says their number with
/// the next one that passes. An outage of Redis, or a host that fails, must not fill a disk with equal lines.
///
/// Lines about a job (`job.id`), and about a change by the holder of a token (`token`), are no repetitions: each says
/// something else.
package struct RepeatLimit: LogFilter {
    package var base: any LogHandler
    private let state: RepeatCounts

    /// - Parameter state: shared by the loggers of a process.
    package init(_ base: any LogHandler, sharing state: RepeatCounts) {
        self.base = base
        self.state = state
    }

    package func log(event: LogEvent) {
        if event.metadata?["job.id"] != nil || event.metadata?["token"] != nil {
            base.log(event: event)
            return
        }
        guard let omitted = state.pass("\(event.level) \(event.message)") else { return }
        var event = event
        if omitted > 0 {
            event.metadata = (event.metadata ?? [:]).merging(["omitted": .stringConvertible(omitted)]) { $1 }
        }
        base.log(event: event)
    }
}

/// How often messages were logged lately.
package final class RepeatCounts: Sendable {
    private struct Message {
        var start: ContinuousClock.Instant
        var count = 0
        var omitted = 0
    }

    /// Times that a message may be logged in an interval.
    package static let burst = 20
    package static let interval: Duration = .seconds(10)
    /// Maximum number of messages that are counted. Further ones pass.
    package static let maximumMessages = 1_000

    private let now: @Sendable () -> ContinuousClock.Instant
    private let messages = Mutex<[String: Message]>([:])

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// Counts a message.
    ///
    /// - Returns: how many equal ones were left out before it; nil if it is to be left out, too.
    func pass(_ text: String) -> Int? {
        let now = now()
        return messages.withLock { messages -> Int? in
            var message = messages[text] ?? Message(start: now)
            if message.start.duration(to: now) >= Self.interval {
                message = Message(start: now, omitted: message.omitted)
            }
            message.count += 1
            if message.count > Self.burst {
                message.omitted += 1
                messages[text] = message
                return nil
            }
            let omitted = message.omitted
            message.omitted = 0
            if messages[text] == nil, messages.count >= Self.maximumMessages {
                messages = messages.filter { $0.value.start.duration(to: now) < Self.interval || $0.value.omitted > 0 }
                if messages.count >= Self.maximumMessages { return omitted }
            }
            messages[text] = message
            return omitted
        }
    }
}
