import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine

/// `megaton dead show`
struct DeadShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Everything about a dead job, as JSON: reason, attempts, who buried it, when, and the job."
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: "The job's id.")
    var id: String

    @Option(
        name: .long,
        help: ArgumentHelp("The job's batch, if several have the id (\"\" for none).", valueName: "name")
    )
    var batch: String?

    func run() async throws {
        try await reportingFailures {
            try await InspectorSession.queue(redis) { queue in
                let letters = try await DeadSelection.letters(of: id, batch: batch, in: queue)
                if letters.isEmpty {
                    let place = batch.map { $0.isEmpty ? " without a batch" : " of the batch \"\($0)\"" } ?? ""
                    throw CLIError.notFound("no dead job\(place) has the id \"\(id)\".")
                }
                for letter in letters { Terminal.output(try Self.text(letter)) }
            }
        }
    }

    /// The letter as JSON, with the time of death as a date, and the job as an object in addition to its original text.
    static func text(_ letter: DeadLetter) throws -> String {
        let options: JSONSerialization.WritingOptions = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let plain = try JSONSerialization.jsonObject(with: Data(try JSONText.line(letter).utf8))
        guard var object = plain as? [String: Any] else { return try JSONText.pretty(letter) }
        object["died_at"] = Date(timeIntervalSince1970: letter.died).formatted(.iso8601)
        // Other text than JSON may have been pushed; it is in `job.job`.
        if let request = try? JSONSerialization.jsonObject(with: Data(letter.job.job.utf8)) {
            object["request"] = request
        }
        let data = try JSONSerialization.data(withJSONObject: object, options: options)
        return JSONText.escaped(String(decoding: data, as: UTF8.self))
    }
}
