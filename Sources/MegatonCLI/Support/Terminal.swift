import Foundation

/// Standard output and standard error.
enum Terminal {
    /// Whether somebody looks at standard error.
    static var isInteractive: Bool { isatty(STDERR_FILENO) == 1 }

    /// Whether a person can read a question and answer it.
    static var canAsk: Bool { isInteractive && isatty(STDIN_FILENO) == 1 }

    /// Asks a question that is answered by "y" or "yes"; everything else, and the end of the input, means no.
    static func confirms(_ question: String) -> Bool {
        write(visible(question) + " [y/N] ", to: .standardError)
        let answer = readLine()?.trimmingCharacters(in: .whitespaces).lowercased()
        return answer == "y" || answer == "yes"
    }

    /// A line on standard error, or several.
    static func error(_ line: String) { write(visible(line) + "\n", to: .standardError) }

    /// A line on standard output, or several.
    static func output(_ line: String) { write(visible(line) + "\n", to: .standardOutput) }

    /// Replaces the line that was shown last on standard error.
    static func status(_ line: String) { write("\r\u{1B}[2K" + line, to: .standardError) }

    /// Names of files and lines of lists are from strangers: what would steer the terminal is written out (`\u{1B}`).
    static func visible(_ text: String) -> String {
        func steers(_ scalar: Unicode.Scalar) -> Bool {
            scalar.properties.generalCategory == .control && scalar != "\n" && scalar != "\t"
        }
        guard text.unicodeScalars.contains(where: steers) else { return text }
        return text.unicodeScalars.map { steers($0) ? $0.escaped(asASCII: true) : String($0) }.joined()
    }

    private static func write(_ text: String, to handle: FileHandle) {
        // Nobody may be there to read it (a closed pipe); that ends nothing.
        try? handle.write(contentsOf: Data(text.utf8))
    }
}
