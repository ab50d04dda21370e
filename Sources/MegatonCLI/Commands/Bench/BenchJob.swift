import Foundation

/// A job that does nothing, and whose id says when it was pushed.
enum BenchJob {
    /// Microseconds of this machine's clock that cannot step: pusher and workers are on one machine.
    static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    /// A job's JSON in its full form, of so many bytes at the least.
    ///
    /// - Parameter isTimed: whether the id says when it was pushed.
    static func json(_ number: Int, bytes: Int, isTimed: Bool = true) -> String {
        let time = isTimed ? String(now()) : "backlog"
        let head = #"{"id":"\#(time)-\#(number)","kind":"fetch","source":"https://example.org/"#
        return head + String(repeating: "x", count: max(0, bytes - head.utf8.count - 2)) + #""}"#
    }

    /// When a job was pushed, by its id; nil where that does not say it.
    static func pushed(_ id: String) -> Int? { id.split(separator: "-").first.flatMap { Int($0) } }
}
