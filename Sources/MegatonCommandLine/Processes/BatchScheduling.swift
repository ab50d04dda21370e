import Foundation

/// Scheduling of processes that should do much work in all, and not each piece of it as soon as possible.
///
/// A worker has threads for rendering, curl, Redis and tasks, more than processors. With Linux's usual policy, a thread
/// that wakes up often interrupts one that renders, for a few microseconds of work. With `SCHED_BATCH` it waits for a
/// free processor or the end of a time slice, a few milliseconds, and finds more work then (sched(7)). Priorities and
/// shares of the processors stay as they are.
package enum BatchScheduling {
    /// `SCHED_BATCH` of linux/sched.h, which Swift's module of glibc lacks.
    private static let policy: CInt = 3

    /// Gives all threads of this process the policy `SCHED_BATCH`; threads and processes that they make inherit it.
    /// Call it early.
    ///
    /// A process that was started with another policy than the usual one keeps it. A sandbox that forbids the call
    /// costs some speed and is no error.
    package static func begin() {
        guard sched_getscheduler(0) == SCHED_OTHER else { return }
        var priority = sched_param(sched_priority: 0)
        // A thread whose turn is yet to come may make another one after the look.
        for _ in 0..<looks {
            let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
            let others = threads.compactMap(pid_t.init).filter { sched_getscheduler($0) == SCHED_OTHER }
            if others.isEmpty { return }
            for thread in others { _ = sched_setscheduler(thread, policy, &priority) }
        }
    }

    /// Limit on the looks at the threads.
    private static let looks = 8
}
