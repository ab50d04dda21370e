import ArgumentParser
import Foundation
import Logging
import MegatonCluster
import MegatonCommandLine
import NIOPosix

/// `megaton-bench idle-workers`: a child process of `megaton-bench cluster --idle`.
struct IdleWorkersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle-workers",
        abstract: "Run many workers without jobs until SIGTERM, and print the number of threads.",
        shouldDisplay: false
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: "Number of workers.")
    var workers: Int

    @Option(name: .long, help: "Number of concurrent jobs of each worker.")
    var concurrency: Int

    @Option(name: .customLong("open-files"), help: "Number of files that the process must be able to open.")
    var openFiles: Int

    /// The last line of the output.
    struct Output: Codable, Sendable {
        /// Highest number of threads of the process.
        var threads: Int
    }

    private static let sampleInterval: Duration = .milliseconds(500)

    func run() async throws {
        try await reportingFailures {
            try OpenFileLimit.require(openFiles, for: "\(workers) workers")
            let shutdown = ShutdownSignal()
            let fleet = IdleWorkers(
                count: workers,
                concurrency: concurrency,
                address: try redis.address(),
                caches: try redis.caches(),
                group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                leaseGroup: MultiThreadedEventLoopGroup(numberOfThreads: 1),
                logger: LogOptions.logger("megaton.bench", level: .error)
            )
            let threads = try await ProcessSignals.forwarded(to: shutdown) {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    group.addTask {
                        try await fleet.run(until: shutdown)
                        return 0
                    }
                    group.addTask { await Self.threads() }
                    var threads = 0
                    if let first = try await group.next() { threads = first }
                    group.cancelAll()
                    if let second = try await group.next() { threads = max(threads, second) }
                    return threads
                }
            }
            try Terminal.output(JSONText.line(Output(threads: threads)))
        }
    }

    /// Counts threads until the task is cancelled.
    ///
    /// - Returns: the highest number.
    private static func threads() async -> Int {
        var threads = 0
        while !Task.isCancelled {
            threads = max(threads, ProcessThreads.count() ?? 0)
            // Cancelled: the condition ends the loop.
            try? await Task.sleep(for: sampleInterval)
        }
        return threads
    }
}
