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
            Examples:
              megaton cache forget-failures https://example.org/a.jpg
              megaton cache forget-failures --host example.org

            Without URLs and --host it deletes all of them; with both, those of the URLs and those of the hosts. A URL \
            stands for its failures with any query. --host also ends the Retry-After, the open circuit and the lowered \
            limits of the host. Jobs that wait for another attempt continue to wait.
            \(RedisOptions.environmentHelp)
            """
    )

    @OptionGroup var sources: SourceArguments
    @OptionGroup var redis: RedisOptions

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.connected(redis, needsCache: true) { queue, caches in
                let failures = RememberedFailures(caches: caches, queue: queue)
                let count: Int
                if sources.isEmpty {
                    count = try await failures.forget()
                } else {
                    count = try await failures.forget(urls: sources.parsedURLs, hosts: sources.host)
                }
                try Terminal.output("\(count) remembered \(count == 1 ? "failure" : "failures") forgotten")
            }
        }
    }
}
