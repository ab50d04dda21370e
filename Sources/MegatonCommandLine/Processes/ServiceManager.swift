import Foundation
package import Logging
package import MegatonCluster
import MegatonCore
import NIOCore
import NIOPosix

/// The service manager that has started this process, such as systemd by a unit with `Type=notify`. The process
/// notifies it that it has started and that it ends, and answers its watchdog (`WatchdogSec=`) while it makes progress.
///
/// Notifications are datagrams to the socket that `NOTIFY_SOCKET` names: see sd_notify(3).
package struct ServiceManager: Sendable {
    /// Variables that are for this process, and not for its children.
    static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

    /// Time within which the watchdog expects a notification; nil without one.
    let watchdog: Duration?
    /// A `sockaddr_un` of the length of its name.
    private let address: [UInt8]
    private let logger: Logger

    /// How long to try while the queue of the socket is full.
    private static let sendLimit: Duration = .seconds(5)
    /// Time in which each event loop must do one task.
    private static let turnLimit: Duration = .seconds(5)
    /// Longest interval of a watchdog; it is answered more often than a longer one needs.
    private static let longestWatchdog: Duration = .seconds(3600)
    /// Size of `sun_path`.
    private static let maximumName = 108

    /// Nil if no service manager waits for notifications.
    package init?(logger: Logger) {
        self.init(ProcessInfo.processInfo.environment, processID: getpid(), logger: logger)
    }

    init?(_ environment: [String: String], processID: Int32, logger: Logger) {
        guard let path = environment["NOTIFY_SOCKET"], !path.isEmpty else { return nil }
        guard let address = Self.address(path) else {
            logger.warning(
                "the service manager is not notified: NOTIFY_SOCKET is neither an absolute path nor an abstract name",
                metadata: ["socket": "\(path)"]
            )
            return nil
        }
        self.address = address
        self.logger = logger
        watchdog = Self.watchdog(environment, processID)
    }

    /// Nil if the text is neither an absolute path nor an abstract name, which begins with `@`, or is too long.
    ///
    /// The bytes are written here, because the fields of the C structure belong to the C module that is imported first.
    private static func address(_ text: String) -> [UInt8]? {
        var name = Array(text.utf8)
        if name.first == UInt8(ascii: "/") {
            name.append(0)
        } else if name.first == UInt8(ascii: "@") {
            name[0] = 0
        } else {
            return nil
        }
        guard name.count > 1, name.count <= maximumName else { return nil }
        return withUnsafeBytes(of: UInt16(AF_UNIX)) { Array($0) } + name
    }

    private static func watchdog(_ environment: [String: String], _ processID: Int32) -> Duration? {
        guard let microseconds = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 else {
            return nil
        }
        // It may be the watchdog of a parent.
        if let owner = environment["WATCHDOG_PID"], Int32(owner) != processID { return nil }
        return min(.microseconds(microseconds), longestWatchdog)
    }

    // MARK: - Notifications

    /// Notifies of the start and of the end of the process, and answers the watchdog in between, until the task is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - shutdown: at `.drain` the process begins to end.
    ///   - hasStarted: returns when the process responds, or the task is cancelled.
    ///   - isHung: whether a task without which the process is of no use makes no progress. It must not depend on
    ///     whether Redis answers.
    package func follow(
        until shutdown: ShutdownSignal,
        hasStarted: @Sendable () async -> Void,
        isHung: @escaping @Sendable () -> Bool
    ) async {
        await hasStarted()
        if Task.isCancelled { return }
        await send("READY=1")
        await withDiscardingTaskGroup { group in
            if let watchdog { group.addTask { await answer(within: watchdog, isHung) } }
            await shutdown.wait(for: .drain)
            await send("STOPPING=1")
        }
    }

    /// Answers the watchdog at half of its interval, and not while the process hangs.
    ///
    /// This is a task of the cooperative pool: if all threads of the pool are blocked, no answer is sent either.
    private func answer(within limit: Duration, _ isHung: @Sendable () -> Bool) async {
        var wasHung = false
        await repeating {
            guard !isHung(), await Self.eventLoopsTurn() else {
                if !wasHung && !Task.isCancelled {
                    logger.critical("the process hangs; the service manager will end it and start it again")
                }
                wasHung = true
                // Soon again: the process may only have been suspended.
                return min(.seconds(1), limit / 10)
            }
            wasHung = false
            await send("WATCHDOG=1")
            return limit / 2
        }
    }

    /// Whether each event loop of the process does a task in time.
    private static func eventLoopsTurn() async -> Bool {
        let isDone = await TimeLimit.run(turnLimit) { () -> Bool in
            do {
                for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() { try await loop.submit {}.get() }
                return true
            } catch {
                // The loop has been shut down: only at the end of the process.
                return false
            }
        }
        return isDone ?? false
    }

    // MARK: - Socket

    /// A call of the system that failed.
    private struct Failure: Error {
        let code: Int32
    }

    /// Sends a notification, again and again for a while if the queue of the socket is full.
    private func send(_ text: String) async {
        let end = ContinuousClock.now + Self.sendLimit
        do throws(Failure) {
            try await retrying(until: ContinuousClock.now >= end) { () async throws(Failure) -> Void in
                try deliver(text)
            } pauseAfter: { (failure: Failure) -> Duration? in
                failure.code == EAGAIN ? .milliseconds(100) : nil
            }
        } catch {
            logger.warning(
                "the service manager could not be notified",
                metadata: ["notification": "\(text)", "error": "\(String(cString: strerror(error.code)))"]
            )
        }
    }

    /// Sends a datagram, without waiting.
    private func deliver(_ text: String) throws(Failure) {
        let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { throw Failure(code: errno) }
        defer { close(descriptor) }
        let isConnected = address.withUnsafeBytes { bytes -> Bool in
            guard let start = bytes.baseAddress else { return false }
            return connect(descriptor, start.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count)) == 0
        }
        guard isConnected else { throw Failure(code: errno) }
        let message = Array(text.utf8)
        guard write(descriptor, message, message.count) == message.count else { throw Failure(code: errno) }
    }
}
