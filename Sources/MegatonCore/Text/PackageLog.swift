package import Logging

/// Drops what other packages log below `notice`: frameworks report each start and stop at `info`, and describe their
/// services at `debug`, with all that these hold. Lines of Megaton's modules pass at the level of the logger.
package struct PackageLog: LogFilter {
    package var base: any LogHandler

    package init(_ base: any LogHandler) { self.base = base }

    package func log(event: LogEvent) {
        if event.level >= .notice || event.source.hasPrefix("Megaton") { base.log(event: event) }
    }
}

extension Logger {
    /// A logger for a framework, whose own lines below `notice` are dropped.
    package var forFramework: Logger { Logger(label: label) { _ in PackageLog(handler) } }
}
