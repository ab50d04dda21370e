package import Foundation
package import Logging

/// Writes one JSON object a line: `time`, `level`, `logger`, `message`, then the metadata by its own names.
///
/// Numbers are numbers, nested metadata are objects and arrays, and everything else is text. `docs/logs.md` lists the
/// names.
package struct JSONLogHandler: LogHandler {
    package var logLevel = Logger.Level.info
    package var metadata = Logger.Metadata()
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let now: @Sendable () -> Date
    private let write: @Sendable (Data) -> Void

    /// - Parameters:
    ///   - now: time of the lines.
    ///   - write: receives a line with its end, in one call.
    package init(
        label: String,
        now: @escaping @Sendable () -> Date = { Date() },
        write: @escaping @Sendable (Data) -> Void = JSONLogHandler.toStandardError
    ) {
        self.label = label
        self.now = now
        self.write = write
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var fields = metadata
        if let provided = metadataProvider?.get() { fields.merge(provided) { $1 } }
        if let own = event.metadata { fields.merge(own) { $1 } }
        if let error = event.error { fields["error"] = "\(error)" }
        let head: [(String, Any)] = [
            ("time", Self.time.format(now())), ("level", event.level.rawValue), ("logger", label),
            ("message", "\(event.message)"),
        ]
        // Metadata cannot replace what each line has.
        let names = Set(head.map(\.0))
        let rest = fields.filter { !names.contains($0.key) }.sorted { $0.key < $1.key }
            .map { ($0.key, Self.value($0.value)) }
        let parts = (head + rest).map { "\(Self.json($0.0)):\(Self.json($0.1))" }
        write(Data("{\(parts.joined(separator: ","))}\n".utf8))
    }

    /// RFC 3339 in UTC with milliseconds.
    private static let time = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    private static func value(_ value: Logger.MetadataValue) -> Any {
        switch value {
        case .string(let text): return text
        case .stringConvertible(let number as Int): return number
        case .stringConvertible(let number as Double) where number.isFinite: return number
        case .stringConvertible(let flag as Bool): return flag
        case .stringConvertible(let other): return "\(other)"
        case .array(let values): return values.map(Self.value)
        case .dictionary(let fields): return fields.mapValues(Self.value)
        }
    }

    /// JSON of a text, number, flag, array or dictionary.
    private static func json(_ value: Any) -> String {
        if let number = value as? Int { return "\(number)" }
        let options: JSONSerialization.WritingOptions = [.fragmentsAllowed, .sortedKeys, .withoutEscapingSlashes]
        // Values of other kinds do not occur; a line without one of them is better than none.
        guard let data = try? JSONSerialization.data(withJSONObject: value, options: options) else { return "null" }
        return String(decoding: data, as: UTF8.self)
    }

    /// Writes a line at once, so that lines of several threads and processes do not mix.
    package static let toStandardError: @Sendable (Data) -> Void = { line in
        // A log that cannot be written cannot be reported either: the program goes on.
        try? FileHandle.standardError.write(contentsOf: line)
    }
}
