internal import Foundation

extension ImagePipeline.Error {
    /// Limits and rules that a failure was met under. It is no answer to those who allow more.
    package struct Allowance: Sendable, Hashable, Codable {
        /// By their names; larger ones allow more.
        package var limits: [String: Double] = [:]
        /// Names of the types that are decoded; nil if these do not decide.
        package var types: Set<String>?

        /// Whether nothing is allowed here that is not allowed there. A limit that one of both does not know decides
        /// nothing: a loader of somebody else names none, and another version may have others.
        func isWithin(_ other: Self) -> Bool {
            let isTypeKnown =
                if let types, let known = other.types { types.isSubset(of: known) } else { true }
            return isTypeKnown
                && limits.allSatisfy { name, limit in other.limits[name].map { limit <= $0 } ?? true }
        }
    }

    /// The same with what was allowed as it was met, unless it says so itself.
    func met(under configuration: ImagePipeline.Configuration) -> Self {
        var error = self
        error.allowance = error.allowance ?? configuration.allowance(deciding: code)
        return error
    }

    /// Whether it may be the answer to a request that sends these header fields, in a pipeline that may allow more than
    /// the one that has met it.
    ///
    /// Failures of earlier versions do not say what was allowed, and answer all. So do those with a Retry-After, as the
    /// origin is not to be asked again whatever is allowed.
    func matches(request fields: [String: String], under configuration: ImagePipeline.Configuration) -> Bool {
        guard matches(request: fields) else { return false }
        if requestedDelay ?? 0 > 0 { return true }
        guard let allowance, let own = configuration.allowance(deciding: code) else { return true }
        return own.isWithin(allowance)
    }
}

extension ImagePipeline.Configuration {
    /// All limits and rules that decide whether a request fails in this way, and not in another one or not at all.
    ///
    /// Without a default case: whoever adds a code has to say what decides it.
    ///
    /// - Returns: nil if there is none: what an origin has said or not, and what is fixed or in the entry's key.
    func allowance(deciding code: ImagePipeline.Error.Code) -> ImagePipeline.Error.Allowance? {
        let loader = (dataLoader as? any LoadLimitDeclaring)?.loadLimits
        var allowance = ImagePipeline.Error.Allowance()
        switch code {
        case .unsupportedFormat: allowance.types = Set(types.map(\.description))
        case .timedOut: allowance.limits["timeout"] = loader?.timeout.inSeconds
        case .connectTimedOut: allowance.limits["connectTimeout"] = loader?.connectTimeout.inSeconds
        case .tooSlow:
            allowance.limits["lowSpeedTime"] = loader?.lowSpeedTime.inSeconds
            // Fewer bytes a second allow more.
            allowance.limits["lowSpeedLimit"] = loader.map { -Double($0.lowSpeedLimit) }
        case .tooManyRedirects: allowance.limits["maximumRedirects"] = loader.map { Double($0.maximumRedirects) }
        case .dataTooLarge:
            allowance.limits["maximumDataSize"] = Double(maximumDataSize)
            allowance.limits["maximumBodySize"] = loader.map { Double($0.maximumBodySize) }
        case .imageTooLarge: allowance.limits["pixels"] = Double(renderLimits.pixels)
        case .sideTooLong: allowance.limits["side"] = Double(renderLimits.side)
        case .tooManyBands: allowance.limits["bands"] = Double(renderLimits.bands)
        case .tooManyFrames: allowance.limits["frames"] = Double(renderLimits.frames)
        case .renderTimedOut: allowance.limits["time"] = renderLimits.time.inSeconds
        // More credentials may open more. Which they are is nothing to write down: they are counted.
        case .notFound, .accessDenied, .httpStatus:
            allowance.limits["credentials"] = loader.map { Double($0.credentials.credentials.count) }
        // The origin's doing, or damage.
        case .unreachable, .tls, .incompleteBody, .badResponse, .dataIsEmpty, .corruptImage: return nil
        // Its limits are fixed.
        case .headerTooLarge: return nil
        // The asker's own matter, which no cluster remembers.
        case .invalidURL, .forbidden, .credentialMissing, .dataLoadingFailed, .dataMissingInCache, .outputTooLarge,
            .tooCostly, .renderFailed, .decoderNotRegistered, .processingFailed, .encodingFailed,
            .pipelineInvalidated, .outputFailed, .outputExists, .diskFull, .throttled, .waitTimedOut, .cancelled:
            return nil
        }
        return allowance
    }
}

/// A loader whose limits decide whether a load fails.
protocol LoadLimitDeclaring: Sendable {
    /// Nil if they are not known.
    var loadLimits: DataLoader.Configuration? { get }
}

extension DataLoader: LoadLimitDeclaring {
    var loadLimits: DataLoader.Configuration? { configuration }
}
