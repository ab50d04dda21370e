internal import Foundation

/// Clock for time-dependent code: elapsed time, sleep, and the date for values that outlive the process.
package struct TimeSource: Sendable {
    package let clock: any Clock<Duration>
    /// Time since an arbitrary moment; never goes back.
    package let now: @Sendable () -> Duration
    /// - Throws: `CancellationError` if the task is cancelled.
    package let sleep: @Sendable (Duration) async throws -> Void
    /// Nanoseconds since 1970 by the wall clock, which may be set.
    package let date: @Sendable () -> Int64

    package init(_ clock: some Clock<Duration>, date: @escaping @Sendable () -> Int64 = Self.wallTime) {
        self.clock = clock
        let start = clock.now
        now = { start.duration(to: clock.now) }
        sleep = { try await clock.sleep(for: $0) }
        self.date = date
    }

    private static let wallTime: @Sendable () -> Int64 = {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
