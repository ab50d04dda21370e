import Foundation
import FoundationNetworking

/// What has been seen of one load so far.
struct LoadRecord: Sendable {
    /// A call of `didReceiveData`.
    struct Chunk: Sendable {
        let data: Data
        let response: URLResponse
    }

    var chunks: [Chunk] = []
    /// The text of the error of each call of `completion`; nil is success.
    var completions: [String?] = []
    /// Calls that the contract forbids whatever the load is of.
    var violations: [String] = []
    /// `cancel()` has returned.
    var isCancelled = false

    var body: Data { Data(chunks.map(\.data).joined()) }
    var isComplete: Bool { !completions.isEmpty }
    var error: String? { completions.first ?? nil }
    var calls: Int { chunks.count + completions.count }
    var statuses: Set<Int?> { Set(chunks.map { ($0.response as? HTTPURLResponse)?.statusCode }) }

    /// For failures.
    var summary: String {
        let end =
            switch completions.first {
            case nil: "no completion"
            case .some(nil): "success"
            case .some(.some(let error)): "the error \"\(error)\""
            }
        return "\(chunks.count) chunks of \(body.count) bytes, \(end)"
    }
}
