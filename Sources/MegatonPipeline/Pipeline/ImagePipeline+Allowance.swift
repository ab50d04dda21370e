internal import Foundation

extension ImageError {
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
    func allowance(deciding code: ImageError.Code) -> ImageError.Allowance? {
        let loader = (dataLoader as? any LoadLimitDeclaring)?.loadLimits
        var allowance = ImageError.Allowance()
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
        // A process that trusts another authority may succeed.
        case .tls: allowance.limits["authorities"] = loader.map { $0.caFile == nil ? 0 : 1 }
        // The origin or damaged bytes decide.
        case .unreachable, .incompleteBody, .badResponse, .dataIsEmpty, .corruptImage: return nil
        // The limits are fixed.
        case .headerTooLarge: return nil
        // Failures of the requesting process, which a cluster does not remember.
        case .invalidURL, .forbidden, .credentialMissing, .watermarkMissing, .dataLoadingFailed, .dataMissingInCache,
            .outputTooLarge,
            .tooCostly, .renderFailed, .decoderNotRegistered, .processingFailed, .encodingFailed,
            .pipelineInvalidated, .outputFailed, .outputExists, .diskFull, .throttled, .waitTimedOut, .cancelled:
            return nil
        }
        return allowance
    }
}
