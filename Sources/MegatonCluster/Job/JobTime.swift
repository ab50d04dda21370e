internal import Foundation
internal import MegatonPipeline

/// A time in a job's JSON: seconds since 1970, or a text as in RFC 3339.
struct JobTime: Decodable {
    let seconds: Double

    static let allowed =
        "are seconds since 1970 and times such as \"2027-01-31T08:00:00Z\", at most 366 days from now"

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let number = try? value.decode(Double.self) {
            seconds = number
        } else if let time = (try? value.decode(String.self)).flatMap(Self.seconds) {
            seconds = time
        } else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(FieldProblem.value(of: decoder)); allowed \(Self.allowed)"
            )
        }
    }

    private static func seconds(_ text: String) -> Double? {
        let whole = Date.ISO8601FormatStyle()
        let date =
            (try? whole.parse(text)) ?? (try? Date.ISO8601FormatStyle(includingFractionalSeconds: true).parse(text))
        return date?.timeIntervalSince1970
    }
}

/// Entry of a job with an idempotency key in Redis.
struct IdempotencyEntry: Sendable, Hashable {
    /// 32 hex digits of the key's SHA-256: a key may have any characters.
    let digest: String
    /// How long the queue remembers the key.
    let lifetime: Duration

    /// Nil for a job without a key.
    init?(_ job: Job) {
        guard let key = job.idempotencyKey else { return nil }
        digest = Self.digest(of: key)
        lifetime = .seconds(job.idempotencyTTL ?? 24 * 3600)
    }

    /// The digest of an idempotency key.
    static func digest(of key: String) -> String { String(Checksum.sha256(Data(key.utf8)).prefix(32)) }
}
