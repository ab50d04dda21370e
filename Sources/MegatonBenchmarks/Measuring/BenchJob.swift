import Foundation

/// A job that does nothing, with the time of its push in its id.
enum NoOpJob {
    /// Microseconds of this machine's monotonic clock: pusher and workers are on one machine.
    static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// The full JSON of a job, at least `bytes` bytes long.
    ///
    /// - Parameter isTimed: whether the id contains the time of the push.
    static func json(_ number: Int, bytes: Int, isTimed: Bool = true) -> String {
        let time = isTimed ? String(now()) : "backlog"
        let head = #"{"id":"\#(time)-\#(number)","kind":"fetch","source":"https://example.org/"#
        return head + String(repeating: "x", count: max(0, bytes - head.utf8.count - 2)) + #""}"#
    }

    /// Time of a job's push, from its id; nil if the id has none.
    static func pushed(_ id: String) -> Int? { id.split(separator: "-").first.flatMap { Int($0) } }
}
