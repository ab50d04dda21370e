import Foundation

/// The lines of a process' log that may say why it ended, for messages.
package enum LogTail {
    /// Maximum number of lines.
    private static let maximumLines = 3
    /// Maximum number of characters of a line.
    private static let maximumLength = 300
    /// Words of lines that some versions of redis-server write at the highest level during each start.
    private static let startLines = ["oO0OoO0OoO0Oo", "Redis version=", "Configuration loaded", "Server initialized"]
    /// Maximum number of bytes that are read from the end of a log.
    private static let maximumBytes: UInt64 = 65536

    /// Errors at the end of a log of this program: lines of the levels error and critical that are not about a job, and
    /// lines that no logger wrote, such as those of a crash. Warnings describe settings, and rarely the reason of an
    /// end.
    ///
    /// - Parameter start: where the log of this process begins; earlier lines are those of another process.
    package static func errors(ofLog path: String, from start: UInt64 = 0) -> String {
        // Without a log the end is reported without it.
        guard let file = FileHandle(forReadingAtPath: path) else { return "" }
        let end = (try? file.seekToEnd()) ?? 0
        let first = max(start, end > maximumBytes ? end - maximumBytes : 0)
        try? file.seek(toOffset: first)
        var text = String(decoding: (try? file.read(upToCount: Int(maximumBytes))) ?? Data(), as: UTF8.self)[...]
        if first > start { text = text.drop { !$0.isNewline } }
        return last(text.split(whereSeparator: \.isNewline).filter { !isHarmless($0) })
    }

    /// Size of a file, bytes; 0 if it does not exist.
    package static func size(ofLog path: String) -> UInt64 {
        var info = stat()
        return stat(path, &info) == 0 ? UInt64(max(0, info.st_size)) : 0
    }

    /// Errors at the end of the log of a redis-server: lines of its highest level, and lines without a level, such as
    /// those of a fault of its configuration. Its warnings are about settings of the machine.
    package static func errors(ofRedisLog text: String) -> String {
        last(text.split(whereSeparator: \.isNewline).filter { !$0.contains("WARNING") && !isHarmlessInRedis($0) })
    }

    private static func last(_ lines: [Substring]) -> String {
        lines.suffix(maximumLines).map { line in
            line.count > maximumLength ? line.prefix(maximumLength) + "…" : String(line)
        }.joined(separator: "\n")
    }

    /// Whether a redis-server wrote a line below the highest level: `1:M 23 Nov 2026 08:00:00.000 * message`. The
    /// levels are `.`, `-`, `*` and `#`.
    private static func isHarmlessInRedis(_ line: Substring) -> Bool {
        let words = line.split(separator: " ", maxSplits: 6)
        guard let process = words.first?.split(separator: ":"), process.count == 2, Int(process[0]) != nil,
            process[1].count == 1, let level = words.dropFirst().first(where: { $0.count == 1 })
        else { return false }
        return [".", "-", "*"].contains(level) || startLines.contains { line.contains($0) }
    }

    /// Whether a logger wrote a line below the level error: `2026-11-23T08:00:00+0000 warning label: message`.
    private static func isHarmless(_ line: Substring) -> Bool {
        let words = line.split(separator: " ", maxSplits: 2)
        guard words.count > 1, words[0].contains("T"), words[0].first?.isNumber == true else { return false }
        return ["trace", "debug", "info", "notice", "warning"].contains(words[1]) || line.contains(" job.id=")
    }
}
