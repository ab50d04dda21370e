package import Logging

/// A log handler that passes a part of the events on to another one, and has the settings of that.
package protocol LogFilter: LogHandler {
    var base: any LogHandler { get set }
}

extension LogFilter {
    package var logLevel: Logger.Level {
        get { base.logLevel }
        set { base.logLevel = newValue }
    }

    package var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    package var metadataProvider: Logger.MetadataProvider? {
        get { base.metadataProvider }
        set { base.metadataProvider = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }
}

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
