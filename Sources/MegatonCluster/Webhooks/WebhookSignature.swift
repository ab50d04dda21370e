internal import Crypto
package import Foundation
internal import MegatonPipeline

/// Signs requests to webhooks with HMAC-SHA256 (RFC 2104, FIPS 180-4).
///
/// The signed text is the time in seconds since 1970, a point and the body, so that a receiver can refuse a recorded
/// request that comes again later. With several keys a request has a signature of each: while a key is replaced, the
/// receiver knows one of them.
struct WebhookSignature: Sendable {
    private let keys: [SymmetricKey]

    init(keys: [Data]) { self.keys = keys.map { SymmetricKey(data: $0) } }

    /// The header field `Megaton-Signature`: `t=<seconds>`, and `v1=` with hex digits for each key.
    func field(of body: Data, at seconds: Int) -> String {
        let text = Data("\(seconds).".utf8) + body
        let signatures = keys.map { "v1=\(HMAC<SHA256>.authenticationCode(for: text, using: $0).hexDigits)" }
        return (["t=\(seconds)"] + signatures).joined(separator: ",")
    }
}

/// The content of a file with the keys of webhooks: one on each line, at most four.
package enum WebhookKeyFile {
    /// Bytes of a key: shorter ones can be guessed.
    private static let sizes = 16...1024
    private static let maximumKeys = 4
    private static let example = "the output of openssl rand -hex 32"

    /// A fault of the file, as the rest of a sentence; never with a key in it.
    package struct Problem: Error, Sendable, Equatable {
        package let text: String
    }

    /// Whitespace around a key is removed: many programs that write such a file end it with a line end.
    package static func keys(_ content: Data) throws(Problem) -> [Data] {
        guard let text = String(bytes: content, encoding: .utf8) else {
            throw Problem(text: "is not a text in UTF-8; each of its lines is a key, such as \(example)")
        }
        let keys = text.split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty }
        if keys.isEmpty { throw Problem(text: "is empty; write a key into it, such as \(example)") }
        if keys.count > maximumKeys {
            throw Problem(text: "has \(keys.count) keys, one on each line; allowed are \(maximumKeys)")
        }
        for key in keys where !sizes.contains(key.utf8.count) {
            throw Problem(
                text: "has a key of \(key.utf8.count) bytes; allowed are \(sizes.lowerBound) to \(sizes.upperBound)"
            )
        }
        return keys.map { Data($0.utf8) }
    }
}
