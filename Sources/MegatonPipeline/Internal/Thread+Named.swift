internal import Foundation

extension Thread {
    /// A thread whose name the kernel knows too, which is what `top -H`, debuggers and profilers show.
    ///
    /// - Parameter stackSize: bytes.
    convenience init(name: String, stackSize: Int, _ body: @escaping @Sendable () -> Void) {
        self.init {
            Self.tellKernel(name)
            body()
        }
        self.name = name
        self.stackSize = stackSize
    }

    /// By the thread itself: Foundation passes on no name of a thread that has not begun, or has only just. The kernel takes
    /// 15 bytes. A thread without a name works as well.
    private static func tellKernel(_ name: String) {
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = Array(name.utf8.prefix(15)).withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
    }
}
