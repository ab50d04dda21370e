import Foundation
import Synchronization

/// Standard output and standard error.
package enum Terminal {
    private struct State {
        var isQuiet = false
        /// Whether the last line of standard error is a status that the next text replaces.
        var hasStatus = false
    }

    private static let state = Mutex(State())

    /// Whether standard error is a terminal on which a line can be replaced.
    package static var isInteractive: Bool {
        isatty(STDERR_FILENO) == 1 && ProcessInfo.processInfo.environment["TERM"] != "dumb"
    }

    /// Whether ``note(_:)`` and ``status(_:)`` write nothing.
    package static var isQuiet: Bool {
        get { state.withLock { $0.isQuiet } }
        set { state.withLock { $0.isQuiet = newValue } }
    }

    /// The current width of the terminal, whose window may change; 80 if it is unknown.
    package static var columns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Writes an error or a warning: one line or several on standard error.
    package static func error(_ line: String) { writeError(visible(line) + "\n", isStatus: false) }

    /// Like ``error(_:)`` for a message that is not an error, and is dropped with `--quiet`.
    package static func note(_ line: String) {
        if !isQuiet { error(line) }
    }

    /// Whether a user can read a question and answer it.
    package static var canAsk: Bool { isatty(STDERR_FILENO) == 1 && isatty(STDIN_FILENO) == 1 }

    /// Asks a question. "y" and "yes" confirm; any other answer, and the end of the input, means no.
    ///
    /// - Parameter isStopped: asked five times a second while there is no answer; true means no.
    package static func confirms(_ question: String, until isStopped: () -> Bool = { false }) -> Bool {
        writeError(visible(question) + " [y/N] ", isStatus: false)
        var request = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        while poll(&request, 1, 200) <= 0 {
            guard isStopped() else { continue }
            writeError("\n", isStatus: false)
            return false
        }
        let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased()
        return answer == "y" || answer == "yes"
    }

    /// Writes one line or several on standard output.
    ///
    /// - Returns: false if its reader has ended: `head` has read enough, and the program ends quietly.
    /// - Throws: `CLIError` 74 if the line was lost for another reason, such as a full disk.
    @discardableResult package static func output(_ line: String) throws(CLIError) -> Bool {
        switch write(visible(line) + "\n", to: STDOUT_FILENO) {
        case 0: return true
        case EPIPE: return false
        case let code:
            let reason = code == EBADF ? "it is closed" : String(cString: strerror(code))
            throw CLIError.output("standard output cannot be written: \(reason).")
        }
    }

    /// Replaces the last status line on standard error; an empty text clears it. `--quiet` drops it.
    package static func status(_ line: String) {
        if isQuiet { return }
        writeError(TextColumns.oneLine(line), isStatus: true)
    }

    /// Escapes control characters (`\u{1B}`). Names of files and lines of lists come from strangers, and could control
    /// the terminal or reverse the text that follows.
    package static func visible(_ text: String) -> String {
        escaped(text) { $0.properties.generalCategory == .control && $0 != "\n" && $0 != "\t" }
    }

    /// Escapes the scalars that the closure selects, and those that change direction or begin a line.
    static func escaped(_ text: String, where steers: (Unicode.Scalar) -> Bool) -> String {
        func isEscaped(_ scalar: Unicode.Scalar) -> Bool {
            switch scalar.value {
            case 0x2028...0x202E, 0x2066...0x2069: true
            default: steers(scalar)
            }
        }
        guard text.unicodeScalars.contains(where: isEscaped) else { return text }
        return text.unicodeScalars.map { isEscaped($0) ? $0.escaped(asASCII: true) : String($0) }.joined()
    }

    private static func writeError(_ text: String, isStatus: Bool) {
        // Locked during the write, so that a status line never stays in front of an error.
        state.withLock { state in
            let start = state.hasStatus || isStatus ? "\r\u{1B}[2K" : ""
            state.hasStatus = isStatus && !text.isEmpty
            // An error has no other place to go to.
            _ = write(start + text, to: STDERR_FILENO)
        }
    }

    /// Writes all of a text, also to a descriptor that does not block, e.g. one that another program has set so.
    ///
    /// - Returns: the error code of the kernel; 0 if all was written.
    static func write(_ text: String, to descriptor: Int32) -> Int32 {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
                continue
            }
            let code = count < 0 ? errno : EIO
            if code == EINTR { continue }
            guard code == EAGAIN else { return code }
            var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            poll(&request, 1, -1)
        }
        return 0
    }
}

#if MEGATON_SANITIZE
    @_exported public import MegatonCore

    // As `Synchronization.Mutex`, for sanitizers; exported so that all files of this module see its members.
    typealias Mutex = MegatonCore.Mutex
#endif
