import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton cache`
struct CacheCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache",
        abstract: "Look into the shared cache, and change it.",
        subcommands: [
            CacheShowCommand.self, CacheTopCommand.self, CacheWatchCommand.self, CachePurgeCommand.self,
            ForgetFailuresCommand.self,
        ]
    )
}

/// `megaton cache forget-failures`
struct ForgetFailuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget-failures",
        abstract: "Delete remembered failures from the cache, so that the next job asks the origin again.",
        discussion: """
            Without URLs and --host it deletes all of them; with both, those of the URLs and those of the hosts. A URL stands for its failures with any query. --host also \
            ends the Retry-After, the open circuit and the lowered limits of the host. Jobs that wait for another \
            attempt continue to wait.
            \(RedisOptions.environmentHelp)
            """
    )

    @Argument(help: ArgumentHelp("URLs of sources.", valueName: "url"))
    var urls: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp("All sources of a host, with or without a port. Repeatable.", valueName: "host")
    )
    var host: [String] = []

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        try SourceChecks.check(urls: urls)
        try SourceChecks.check(hosts: host)
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let failures = RememberedFailures(caches: caches, queue: queue)
                let count: Int
                if urls.isEmpty && host.isEmpty {
                    count = try await failures.forget()
                } else {
                    count = try await failures.forget(urls: urls.compactMap { URL(string: $0) }, hosts: host)
                }
                try Terminal.output("\(count) remembered \(count == 1 ? "failure" : "failures") forgotten")
            }
        }
    }
}

/// Checks of arguments that name sources.
enum SourceChecks {
    /// - Throws: `ValidationError` for the first text that is no URL with a host.
    static func check(urls: [String]) throws {
        for url in urls where URL(string: url)?.scheme == nil || URL(string: url)?.host() == nil {
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
