internal import Foundation

extension Thread {
    /// Creates a thread whose name is known to the kernel too, so that `top -H`, debuggers and profilers show it.
    ///
    /// - Parameter stackSize: bytes.
    package convenience init(name: String, stackSize: Int, _ body: @escaping @Sendable () -> Void) {
        self.init {
            Self.tellKernel(name)
            body()
        }
        self.name = name
        self.stackSize = stackSize
    }

    /// Called on the thread itself: Foundation does not pass on the name of a thread that has not started yet, or only
    /// just has. The kernel takes 15 bytes. Errors are ignored, as a thread works without a name too.
    private static func tellKernel(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = Array(name.utf8.prefix(15)).withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
    }
}
