import Foundation

/// Standard output and standard error.
enum Terminal {
    /// Whether somebody looks at standard error.
    static var isInteractive: Bool { isatty(STDERR_FILENO) == 1 }

    /// A line on standard error.
    static func error(_ line: String) { write(line + "\n", to: .standardError) }

    /// A line on standard output.
    static func output(_ line: String) { write(line + "\n", to: .standardOutput) }

    /// Replaces the line that was shown last on standard error.
    static func status(_ line: String) { write("\r\u{1B}[2K" + line, to: .standardError) }

    private static func write(_ text: String, to handle: FileHandle) {
        // Nobody may be there to read it (a closed pipe); that ends nothing.
        try? handle.write(contentsOf: Data(text.utf8))
    }
}
