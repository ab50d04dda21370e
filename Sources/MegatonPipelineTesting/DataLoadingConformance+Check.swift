extension DataLoadingConformance {
    /// A rule of the contract, and the check that verifies it.
    public enum Check: String, Sendable, CaseIterable, CustomStringConvertible {
        // Delivery
        case wholeBody, responseWithEachChunk, incrementalDelivery, oneCallAtATime, emptyBody
        // Completion
        case conditionalRequest, errorStatus, completionOnce, brokenBody, unreachableOrigin, manyAtOnce, nothingIsHeld
        // Cancellation
        case cancelAtOnce, cancelMidStream, cancelWithinCallback, cancelUnderFire, cancelTwice, cancelAfterCompletion,
            cancelOfSome

        public var description: String { rawValue }

        /// The rule that must hold.
        public var rule: String {
            switch self {
            case .wholeBody: "the chunks together are the body, and the load succeeds"
            case .responseWithEachChunk: "each chunk comes with the response, with its URL, status and header fields"
            case .incrementalDelivery: "a chunk is handed over when it arrives, also where the body never ends"
            case .oneCallAtATime: "the closures of a load may be called on any thread, one call at a time"
            case .emptyBody: "a body of no bytes is a success without any bytes"
            case .conditionalRequest:
                "the request's header fields reach the origin, and a 304 is an error, or a success without any bytes"
            case .errorStatus:
                "a status such as 404 ends with an error, or its body comes with a response that tells it"
            case .completionOnce: "completion is called once, after all chunks, and nothing comes after it"
            case .brokenBody: "a body that breaks off completes with an error"
            case .unreachableOrigin: "an origin that cannot be reached completes with an error"
            case .manyAtOnce: "each of many loads at a time gets its own bytes"
            case .nothingIsHeld: "the closures are let go of when the load has ended and its Cancellable is gone"
            case .cancelAtOnce: "nothing is called after cancel(), also where nothing had arrived yet"
            case .cancelMidStream: "nothing is called after cancel(), no error either"
            case .cancelWithinCallback: "cancel() may be called from within didReceiveData; nothing is called after it"
            case .cancelUnderFire: "no call begins after cancel() has returned, also while chunks are coming in"
            case .cancelTwice: "cancel() may be called more than once, and from several threads"
            case .cancelAfterCompletion: "cancel() after completion does nothing"
            case .cancelOfSome: "cancel() ends its own load and no other"
            }
        }
    }
}
