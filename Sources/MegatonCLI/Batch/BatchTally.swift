import Foundation
import MegatonCluster

/// What the outcomes of a batch say so far.
struct BatchTally {
    private(set) var ended = 0
    private(set) var cancelled = 0
    private(set) var workers: Set<String> = []
    /// Code to how often, and the first message.
    private(set) var errors: [String: (count: Int, example: String)] = [:]
    /// Outcomes that could not be read; there are none unless another version of the program wrote them.
    private(set) var unreadable = 0

    mutating func add(_ line: Data) {
        ended += 1
        // Counted, and told at the end.
        guard let outcome = try? JSONDecoder().decode(Glance.self, from: line) else {
            unreadable += 1
            return
        }
        if let worker = outcome.worker { workers.insert(worker) }
        if outcome.status == .cancelled { cancelled += 1 }
        if outcome.status == .failed, let error = outcome.error {
            errors[error.code, default: (0, error.message)].count += 1
        }
    }

    /// The fields that count; the line itself goes to the ledger as it is.
    private struct Glance: Decodable {
        let status: JobOutcome.Status
        let worker: String?
        let error: JobOutcome.Failure?
    }

    /// Characters of a message that are shown; the ledger has all.
    private static let messageLimit = 240

    private static func shortened(_ message: String) -> String {
        message.count > messageLimit ? "\(message.prefix(messageLimit - 1))…" : message
    }

    /// The codes with their numbers, the most frequent first.
    var table: String {
        let unread = unreadable == 0 ? "" : "\n  \(unreadable) outcomes could not be read"
        let rows = errors.sorted { ($0.value.count, $1.key) > ($1.value.count, $0.key) }
        let width = rows.map(\.key.count).max() ?? 0
        return rows.map { code, entry in
            let name = code.padding(toLength: width, withPad: " ", startingAt: 0)
            return "  \(String(format: "%6d", entry.count))  \(name)  \(Self.shortened(entry.example))"
        }.joined(separator: "\n") + unread
    }
}
