import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonRedis

/// `megaton cache`
struct CacheCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache",
        abstract: "Change what the shared cache remembers.",
        subcommands: [ForgetFailuresCommand.self]
    )
}

/// `megaton cache forget-failures`
struct ForgetFailuresCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget-failures",
        abstract: "Forget failures that the cache remembers, so that the origin is asked again at once.",
        discussion: """
            Without URLs and --host all of them. A URL means its failures with any query. --host also ends the host's \
            Retry-After, its break and its lowered limits. Jobs that are waiting for another try wait on.
            \(RedisOptions.environmentHelp)
            """
    )

    @Argument(help: ArgumentHelp("URLs of sources.", valueName: "url"))
    var urls: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp("All sources of a host, with or without a port; repeatable.", valueName: "host")
    )
    var host: [String] = []

    @OptionGroup var redis: RedisOptions

    mutating func validate() throws {
        for url in urls where URL(string: url)?.scheme == nil || URL(string: url)?.host() == nil {
            throw ValidationError("\(url) is no URL; it looks like https://example.org/a.jpg.")
        }
        for host in host where host.isEmpty || host.contains("/") || host.contains("@") {
            throw ValidationError("--host looks like example.org or example.org:8080, not \"\(host)\".")
        }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { control, cache in
                let failures = RememberedFailures(cache: cache, queue: JobQueue(control, keys: redis.keys))
                let count: Int
                if urls.isEmpty && host.isEmpty {
                    count = try await failures.forget()
                } else {
                    count = try await failures.forget(urls: urls.compactMap { URL(string: $0) }, hosts: host)
                }
                Terminal.output("\(count) remembered \(count == 1 ? "failure" : "failures") forgotten")
            }
        }
    }
}
