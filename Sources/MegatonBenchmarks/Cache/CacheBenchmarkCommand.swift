import ArgumentParser
import Foundation
import MegatonCommandLine

/// `megaton-bench cache`
struct CacheBenchmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cache",
        abstract: "Measure the caches by the size of their entries: Redis, disk and memory.",
        discussion: """
            It uses a private Redis and a directory in /tmp. A put of the disk cache returns before the file is \
            written; its rate includes the writing of all files, its percentiles do not. Files are read from the \
            memory of the system. The memory cache copies nothing.
            """
    )

    @Option(name: .long, help: "Sizes of the entries in bytes, separated by commas; k and m are KiB and MiB.")
    var sizes = "1k,10k,100k,1m"

    @Option(name: .long, help: "Seconds for each cache, size and operation.")
    var seconds = 1

    @Option(name: .long, help: "Number of concurrent operations.")
    var concurrency = 8

    @Flag(name: .long, help: "Print one JSON object instead of the table.")
    var json = false

    mutating func validate() throws {
        try OptionRange.check("--seconds", seconds, 1...600)
        try OptionRange.check("--concurrency", concurrency, 1...1024)
        _ = try entrySizes()
    }

    /// Sizes of the entries, bytes.
    private func entrySizes() throws -> [Int] {
        let sizes = try self.sizes.split(separator: ",").map { text in
            let units = ["k": 1 << 10, "m": 1 << 20]
            let unit = units[text.suffix(1).lowercased()]
            guard let number = Int(unit == nil ? text : text.dropLast()),
                (1...CacheBenchmark.maximumSize).contains(number),
                (1...CacheBenchmark.maximumSize).contains(number * (unit ?? 1))
            else { throw ValidationError("--sizes must be a list like 1k,1m of 1 to 32m, not \"\(text)\".") }
            return number * (unit ?? 1)
        }
        if !(1...16).contains(sizes.count) { throw ValidationError("--sizes must name 1 to 16 sizes.") }
        return sizes
    }

    func run() async throws {
        try await reportingFailures {
            let sizes = try entrySizes()
            let report = try await EmbeddedRedis(size: 4 << 30, isTemporary: true).run { address in
                try await CacheBenchmark(
                    address: address,
                    sizes: sizes,
                    time: .seconds(seconds),
                    concurrency: concurrency
                ).run()
            }
            if json { try Terminal.output(JSONText.pretty(report)) } else { try Terminal.output(report.text) }
        }
    }
}
