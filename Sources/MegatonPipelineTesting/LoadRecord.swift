import Foundation
import FoundationNetworking

/// The calls observed for one load so far.
struct LoadRecord: Sendable {
    /// A call of `didReceiveData`.
    struct Chunk: Sendable {
        let data: Data
        let response: URLResponse
    }

    var chunks: [Chunk] = []
    /// One element per call of `completion`: the text of its error, nil for success.
    var completions: [String?] = []
    /// Calls that the contract forbids for any resource.
    var violations: [String] = []
    /// Whether `cancel()` has returned.
    var isCancelled = false

    var body: Data { Data(chunks.map(\.data).joined()) }
    var isComplete: Bool { !completions.isEmpty }
    var error: String? { completions.first ?? nil }
    var calls: Int { chunks.count + completions.count }
    var statuses: Set<Int?> { Set(chunks.map { ($0.response as? HTTPURLResponse)?.statusCode }) }

    /// A description for failures.
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
