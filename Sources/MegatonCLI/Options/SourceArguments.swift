import ArgumentParser
import Foundation

/// Sources whose entries or failures in the cache a command changes.
struct SourceArguments: ParsableArguments {
    @Argument(help: ArgumentHelp("URLs of sources.", valueName: "url"))
    var urls: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp("All sources of a host, with or without a port. Repeatable.", valueName: "host")
    )
    var host: [String] = []

    mutating func validate() throws {
        try SourceChecks.check(urls: urls)
        try SourceChecks.check(hosts: host)
    }

    /// Whether no source is named.
    var isEmpty: Bool { urls.isEmpty && host.isEmpty }

    var parsedURLs: [URL] { urls.compactMap { URL(string: $0) } }
}

/// Checks of arguments that name sources.
enum SourceChecks {
    /// - Throws: `ValidationError` for the first text that is no URL with a host.
    static func check(urls: [String]) throws {
        for url in urls where URL(string: url)?.scheme == nil || URL(string: url)?.host() == nil {
            if url.lowercased().hasPrefix("file:") || FileManager.default.fileExists(atPath: url) {
                throw ValidationError(
                    "\(url) is a file, and this command finds sources with a host only: the cache keys of a file also "
                        + "have its size and the time of its last change, as a worker has read them. A file that has "
                        + "changed is rendered again; --force of megaton run or submit renders one that has not. "
                        + "megaton cache top lists the largest entries of all sources."
                )
            }
            throw ValidationError("\(url) is not a URL like https://example.org/a.jpg.")
        }
    }

    /// - Throws: `ValidationError` for the first text that is no host.
    static func check(hosts: [String]) throws {
        for host in hosts where host.isEmpty || host.contains("/") || host.contains("@") {
            throw ValidationError("--host must look like example.org or example.org:8080, not \"\(host)\".")
        }
    }
}
