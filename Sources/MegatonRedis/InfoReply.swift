/// The reply to INFO: lines of `name:value`, with headings and empty lines between them
/// (<https://redis.io/docs/latest/commands/info/>).
///
/// Which lines there are depends on the version, the settings and the section that was asked for, and a proxy may leave
/// some out: a line that is missing is no error.
package enum InfoReply {
    /// The number on a line, such as `maxmemory`.
    ///
    /// - Parameters:
    ///   - name: name of the line, without the colon.
    ///   - info: the whole reply.
    /// - Returns: 0 if there is no such line, or no whole number on it.
    package static func number(_ name: String, in info: String) -> Int {
        text(name, in: info).flatMap { Int($0) } ?? 0
    }

    /// The text on a line, such as `redis_version`.
    ///
    /// - Parameters:
    ///   - name: name of the line, without the colon.
    ///   - info: the whole reply.
    /// - Returns: nil if there is no such line.
    package static func text(_ name: String, in info: String) -> String? {
        // Lines end with CR LF, which is one character.
        info.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }.map {
            String($0.dropFirst(name.count + 1))
        }
    }
}
