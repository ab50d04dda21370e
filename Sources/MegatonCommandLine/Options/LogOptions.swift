import ArgumentParser
package import Logging

/// Level of the log on standard error.
package struct LogOptions: ParsableArguments {
    @Option(
        name: .customLong("log-level"),
        help: "trace, debug, info, notice, warning, error or critical."
    )
    package var logLevel = "info"

    package init() {}

    package mutating func validate() throws { try Self.check(logLevel) }

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
        Self.logger(label, level: Logger.Level(rawValue: logLevel) ?? .info)
    }

    package static func logger(_ label: String, level: Logger.Level) -> Logger {
        var logger = Logger(label: label) { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = level
        return logger
    }
}
