internal import Foundation
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// A failure as the cache Redis remembers it: the error's JSON, with fields in front that the scripts set and read.
struct RememberedFailure {
    /// Whom the failure answers.
    enum Kind: String {
        /// Any request that accepts its age.
        case usual = "k"
        /// Everybody: the origin asked not to be asked again before.
        case binding = "b"
        /// Those who waited for its flight.
        case waiters = "w"
    }

    let error: ImagePipeline.Error
    let kind: Kind

    private struct Fields: Decodable {
        let kind: String?
    }

    /// - Returns: nil if the value is no failure, or cannot be read.
    init?(_ value: RedisValue) {
        guard let data = value.buffer.map({ Data($0.readableBytesView) }) else { return nil }
        // Of another version, or the mark of what must not be kept: no failure that this version knows.
        guard let error = try? JSONDecoder().decode(ImagePipeline.Error.self, from: data) else { return nil }
        self.error = error
        // Earlier versions set no kind.
        kind = (try? JSONDecoder().decode(Fields.self, from: data).kind).flatMap(Kind.init) ?? .usual
    }

    /// How long an error is remembered and for whom.
    ///
    /// - Returns: nil if what is remembered is not changed.
    static func memory(
        of error: ImagePipeline.Error,
        for key: CacheKey,
        _ policy: NegativePolicy
    ) -> (lifetime: Duration, kind: Kind)? {
        guard var lifetime = policy.lifetime(of: error) else { return nil }
        // The original's key remembers why it could not be loaded, for all renditions of it.
        if key.kind == .rendition, error.stage == .load { lifetime = .zero }
        let isBinding = error.requestedDelay ?? 0 > 0 && error.remembered == nil && lifetime > .zero
        return (lifetime, isBinding ? .binding : .usual)
    }

    /// The error as it is reported to a later request.
    ///
    /// - Parameter millisecondsLeft: until it is forgotten.
    static func told(_ value: RedisValue, millisecondsLeft: Int) -> ImagePipeline.Error {
        let left = Double(max(0, millisecondsLeft)) / 1000
        guard let failure = RememberedFailure(value) else {
            var error = ImagePipeline.Error(.unreachable, "It failed a moment ago, for a reason that cannot be read.")
            (error.retryAfter, error.remembered) = (left, left)
            return error
        }
        var error = failure.error
        error.message += " (remembered for another \(Int(left.rounded(.up))) s)"
        // The time that is left, not the whole time that was asked for.
        error.retryAfter = left
        error.requestedDelay = failure.kind == .binding ? left : nil
        error.remembered = left
        return error
    }
}
