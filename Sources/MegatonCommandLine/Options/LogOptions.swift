import ArgumentParser
package import Logging

/// Level and format of the log on standard error.
package struct LogOptions: ParsableArguments {
    @Option(
        name: .customLong("log-level"),
        help: "trace, debug, info, notice, warning, error or critical.",
        completion: .list(Logger.Level.allCases.map(\.rawValue))
    )
    package var logLevel = "info"

    @Option(
        name: .customLong("log-format"),
        help: "text, or json for one JSON object a line.",
        completion: .list(["text", "json"])
    )
    package var logFormat = "text"

    package init() {}

    package mutating func validate() throws {
        try Self.check(logLevel)
        if !["text", "json"].contains(logFormat) {
            throw ValidationError("--log-format must be text or json, not \"\(logFormat)\".")
        }
    }

    /// - Throws: `ValidationError` if there is no such level.
    package static func check(_ level: String) throws {
        if Logger.Level(rawValue: level) == nil {
            throw ValidationError(
                "--log-level must be trace, debug, info, notice, warning, error or critical, not \"\(level)\"."
            )
        }
    }

    /// A logger on standard error; standard output is reserved for results.
    package func logger(_ label: String) -> Logger {
        Self.logger(label, level: Logger.Level(rawValue: logLevel) ?? .info, isJSON: logFormat == "json")
    }

    /// How often messages were logged by the loggers of this process.
    private static let repeats = RepeatCounts()

    package static func logger(_ label: String, level: Logger.Level, isJSON: Bool = false) -> Logger {
        var logger = Logger(label: label) { label in
            if isJSON { return RepeatLimit(JSONLogHandler(label: label), sharing: repeats) }
            return RepeatLimit(StreamLogHandler.standardError(label: label), sharing: repeats)
        }
        logger.logLevel = level
        return logger
    }
}
