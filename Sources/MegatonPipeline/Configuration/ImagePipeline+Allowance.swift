internal import Foundation

extension ImagePipeline.Error {
    /// Limits and rules in force when a request failed. The failure does not answer requests of pipelines that allow
    /// more.
    package struct Allowance: Sendable, Hashable, Codable {
        /// Limits by name; a larger value allows more.
        package var limits: [String: Double] = [:]
        /// Names of the formats that are decoded; nil if they do not matter for the failure.
        package var types: Set<String>?

        /// Whether `other` allows everything that is allowed here. A limit that only one of them has is ignored: custom
        /// loaders declare none, and other versions may have others.
        func isWithin(_ other: Self) -> Bool {
            let isTypeKnown =
                if let types, let known = other.types { types.isSubset(of: known) } else { true }
            return isTypeKnown
                && limits.allSatisfy { name, limit in other.limits[name].map { limit <= $0 } ?? true }
        }
    }

    /// The same error with the limits in force, unless it has them already.
    func met(under configuration: ImagePipeline.Configuration) -> Self {
        var error = self
        error.allowance = error.allowance ?? configuration.allowance(deciding: code)
        return error
    }

    /// Whether it can answer a request that sends these header fields, in a pipeline that may allow more than the one
    /// that failed.
    ///
    /// Failures stored by earlier versions have no allowance and answer every request. So do failures with a
    /// Retry-After, as the origin must not be asked again whatever is allowed.
    func matches(request fields: [String: String], under configuration: ImagePipeline.Configuration) -> Bool {
        guard matches(request: fields) else { return false }
        if requestedDelay ?? 0 > 0 { return true }
        guard let allowance, let own = configuration.allowance(deciding: code) else { return true }
        return own.isWithin(allowance)
    }
}

extension ImagePipeline.Configuration {
    /// All limits and rules that decide whether a request fails with this code.
    ///
    /// The switch has no default case, so that each new code needs a decision here.
    ///
    /// - Returns: nil if there are none: the origin, fixed limits, or values in the entry's key decide.
    func allowance(deciding code: ImagePipeline.Error.Code) -> ImagePipeline.Error.Allowance? {
        let loader = (dataLoader as? any LoadLimitDeclaring)?.loadLimits
        var allowance = ImagePipeline.Error.Allowance()
        switch code {
        case .unsupportedFormat: allowance.types = Set(types.map(\.description))
        case .timedOut: allowance.limits["timeout"] = loader?.timeout.inSeconds
        case .connectTimedOut: allowance.limits["connectTimeout"] = loader?.connectTimeout.inSeconds
        case .tooSlow:
            allowance.limits["lowSpeedTime"] = loader?.lowSpeedTime.inSeconds
            // A smaller number of bytes per second allows more.
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
        // More credentials may give access to more. Only their number is stored, so that none is disclosed.
        case .notFound, .accessDenied, .httpStatus:
            allowance.limits["credentials"] = loader.map { Double($0.credentials.credentials.count) }
        // The origin or damaged bytes decide.
        case .unreachable, .tls, .incompleteBody, .badResponse, .dataIsEmpty, .corruptImage: return nil
        // The limits are fixed.
        case .headerTooLarge: return nil
        // Failures of the requesting process, which a cluster does not remember.
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
    /// Nil if they are unknown.
    var loadLimits: DataLoader.Configuration? { get }
}

extension DataLoader: LoadLimitDeclaring {
    var loadLimits: DataLoader.Configuration? { configuration }
}
