import Foundation

/// The descriptors 0 to 2, which a caller may have closed (`>&-`).
package enum StandardStreams {
    /// Opens each descriptor that is closed, so that no socket or file gets its number and receives output.
    ///
    /// The opposite direction makes each use fail with EBADF, as on the closed descriptor. Called before anything else
    /// is opened.
    package static func openClosed() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free descriptor is the closed one. Without /dev a directory serves as well.
            let direction = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY
            guard open("/dev/null", direction) == descriptor || open("/", O_RDONLY) == descriptor else { exit(71) }
        }
    }

    /// Whether a descriptor can be written; false for one that was closed at the start.
    package static func isWritable(_ descriptor: Int32) -> Bool {
        let flags = fcntl(descriptor, F_GETFL)
        return flags >= 0 && flags & O_ACCMODE != O_RDONLY
    }

    /// - Parameter purpose: the data that could not be written, for the message.
    /// - Throws: `CLIError` 74 if standard output is closed: it would be noticed only after all work otherwise.
    package static func requireOutput(for purpose: String) throws(CLIError) {
        guard isWritable(STDOUT_FILENO) else {
            throw CLIError.output(
                "standard output is closed, so that \(purpose) cannot be written; nothing was begun. Redirect it to a "
                    + "file or a pipe, or to /dev/null."
            )
        }
    }
}
