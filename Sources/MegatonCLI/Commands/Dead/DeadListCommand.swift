import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton dead list`
struct DeadListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "The dead jobs, the oldest first."
    )

    @OptionGroup var redis: RedisOptions

    @Option(name: .long, help: ArgumentHelp("Only those of a batch.", valueName: "name"))
    var batch: String?

    @Option(name: .long, help: ArgumentHelp("Only those with this error.", valueName: "code"))
    var error: String?

    @Option(name: .long, help: "How many to show at the most.")
    var limit = 100

    @Flag(name: .long, help: "One JSON object a line.")
    var json = false

    mutating func validate() throws {
        if !(1...100_000).contains(limit) { throw ValidationError("--limit is 1 to 100000.") }
    }

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                var (shown, offset, hasMore) = (0, 0, false)
                while !hasMore {
                    let page = try await queue.dead(offset: offset, limit: 50)
                    if page.isEmpty { break }
                    offset += page.count
                    for letter in page where isMeant(letter) {
                        hasMore = shown == limit
                        if hasMore { break }
                        shown += 1
                        let line = json ? try JSONText.line(letter) : Self.row(letter)
                        // Standard output is closed: `head` has read enough.
                        if !Terminal.output(line) { return }
                    }
                }
                if shown == 0 && !json { Terminal.output("no dead jobs") }
                if hasMore {
                    let all = try await queue.deadCount()
                    Terminal.error("megaton: the list ends at \(shown) of \(all) dead jobs; --limit shows more.")
                }
            }
        }
    }

    private func isMeant(_ letter: DeadLetter) -> Bool {
        (batch == nil || letter.batch ?? "" == batch) && (error == nil || letter.job.code == error)
    }

    private static func row(_ letter: DeadLetter) -> String {
        let time = Date(timeIntervalSince1970: letter.died).formatted(.iso8601)
        let place = letter.batch.map { " (batch \($0))" } ?? ""
        return "\(time)  \(letter.id)\(place)  \(letter.job.code)  \(letter.job.message.prefix(120))"
    }
}
