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
            let text = try? value.decode(String.self)
            let lacksZone = text.flatMap { Self.seconds($0 + "Z") } != nil
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(FieldProblem.value(of: decoder))\(lacksZone ? ", which has no zone, such as Z for UTC" : ""); "
                    + "allowed \(Self.allowed)"
            )
        }
    }

    /// The time as a text, for messages: the job may have had it in either form.
    static func text(_ seconds: Double) -> String {
        // Those that have four digits for the year.
        guard (0...253_402_300_799).contains(seconds) else { return "\(seconds)" }
        return "\(Int(seconds)) (\(Date(timeIntervalSince1970: seconds).formatted(.iso8601)))"
    }

    private static func seconds(_ text: String) -> Double? { RFC3339.date(text)?.timeIntervalSince1970 }
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
