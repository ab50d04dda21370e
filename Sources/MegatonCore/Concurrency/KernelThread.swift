internal import Foundation

/// Threads whose names are known to the kernel, so that `top -H`, debuggers and profilers show them.
///
/// Not Foundation's: its `start()` reports no error, so that the work of a thread that could not be created waited for
/// ever, in a worker that went on claiming jobs.
package enum KernelThread {
    /// The work of a thread, until it has started.
    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
    }

    /// Starts a thread, or ends the process with exit code 71 and a message on standard error: it could not do its
    /// work, and must not look as if it did.
    ///
    /// - Parameter stackSize: bytes.
    package static func start(_ name: String, stackSize: Int, _ body: @escaping @Sendable () -> Void) {
        let code = create(name, stackSize: stackSize, body)
        if code == 0 { return }
        let message =
            "megaton: the thread \(name) cannot be started: \(String(cString: strerror(code))). Raise the limit of "
            + "processes and threads (ulimit -u, TasksMax of a unit, pids.max of a container), or that of memory.\n"
        _ = Array(message.utf8).withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
        // Without the handlers of exit(3), which may wait for other threads.
        _exit(systemFault)
    }

    /// EX_OSERR of sysexits.h.
    private static let systemFault: Int32 = 71

    /// - Returns: the error of pthread_create(3); 0 if the thread runs.
    static func create(_ name: String, stackSize: Int, _ body: @escaping @Sendable () -> Void) -> Int32 {
        var attributes = pthread_attr_t()
        var code = pthread_attr_init(&attributes)
        if code != 0 { return code }
        defer { pthread_attr_destroy(&attributes) }
        // Nothing waits for its end: the body reports that.
        code = pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        if code == 0 { code = pthread_attr_setstacksize(&attributes, stackSize) }
        if code != 0 { return code }
        let start = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        code = pthread_create(
            &thread,
            &attributes,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                KernelThread.setName(start.name)
                start.body()
                return nil
            },
            start.toOpaque()
        )
        // Otherwise the thread releases it.
        if code != 0 { start.release() }
        return code
    }

    /// Called on the thread itself. The kernel takes 15 bytes. Errors are ignored: a thread works without a name too.
    private static func setName(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = Array(name.utf8.prefix(15)).withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
    }
}
