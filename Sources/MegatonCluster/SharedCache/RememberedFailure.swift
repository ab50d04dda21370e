internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// A failure as the cache Redis stores it: the error's JSON, with fields in front that the scripts set and read.
struct RememberedFailure {
    /// Requests that the failure answers.
    enum Kind: String {
        /// Any request that accepts its age.
        case usual = "k"
        /// Every request: the origin asked for no further request before that time.
        case binding = "b"
        /// Requests that waited for its flight.
        case waiters = "w"
    }

    let error: ImagePipeline.Error
    let kind: Kind

    private struct Fields: Decodable {
        let kind: String?
    }

    /// - Returns: nil if the value is not a failure, or cannot be read.
    init?(_ value: RedisValue) {
        guard let data = value.buffer.map({ Data($0.readableBytesView) }) else { return nil }
        // From another version, or the `uncacheable` mark: not a failure that this version knows.
        guard let error = try? JSONDecoder().decode(ImagePipeline.Error.self, from: data) else { return nil }
        self.error = error
        // Earlier versions set no kind.
        kind = (try? JSONDecoder().decode(Fields.self, from: data).kind).flatMap(Kind.init) ?? .usual
    }

    /// The time for which an error is remembered, and the requests that it then answers.
    ///
    /// - Returns: nil if the remembered failure does not change.
    static func memory(
        of error: ImagePipeline.Error,
        for key: CacheKey,
        _ policy: NegativePolicy
    ) -> (lifetime: Duration, kind: Kind)? {
        guard var lifetime = policy.lifetime(of: error) else { return nil }
        // A load failure is remembered under the original's key, for all renditions of it.
        if key.kind == .rendition, error.stage == .load { lifetime = .zero }
        let isBinding = error.requestedDelay ?? 0 > 0 && error.remembered == nil && lifetime > .zero
        return (lifetime, isBinding ? .binding : .usual)
    }

    /// The error as it is reported to a later request.
    ///
    /// - Parameter millisecondsLeft: time until the failure is forgotten.
    static func error(_ value: RedisValue, millisecondsLeft: Int) -> ImagePipeline.Error {
        let left = Double(max(0, millisecondsLeft)) / 1000
        guard let failure = RememberedFailure(value) else {
            var error = ImagePipeline.Error(
                .unreachable,
                "The source failed a moment ago; the remembered reason cannot be read."
            )
            (error.retryAfter, error.remembered) = (left, left)
            return error
        }
        var error = failure.error
        let isSentence = error.message.hasSuffix(".")
        if isSentence { error.message.removeLast() }
        error.message += " (remembered for another \(Int(left.rounded(.up))) s)\(isSentence ? "." : "")"
        // The remaining time, not the whole delay that the origin named.
        error.retryAfter = left
        error.requestedDelay = failure.kind == .binding ? left : nil
        error.remembered = left
        return error
    }
}
