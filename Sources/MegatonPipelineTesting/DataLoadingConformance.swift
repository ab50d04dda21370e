public import MegatonPipeline

/// Checks a loader against the contract of `DataLoading`, rule by rule.
///
/// The checks depend on no test library. With Swift Testing:
///
/// ```swift
/// @Test(arguments: DataLoadingConformance.Check.allCases)
/// func conforms(_ check: DataLoadingConformance.Check) async throws {
///     try await DataLoadingConformance(MyLoader(), origin: origin).run(check)
/// }
/// ```
///
/// With XCTest: `for check in DataLoadingConformance.Check.allCases { try await conformance.run(check) }`.
public struct DataLoadingConformance: Sendable {
    /// The loader that is checked.
    public let loader: any DataLoading
    /// The origin that the loader talks to.
    public let origin: ConformanceOrigin
    /// Timeout for each call that must come. A check that passes never waits that long.
    public var patience: Duration

    /// - Parameter patience: 30 seconds by default.
    public init(_ loader: any DataLoading, origin: ConformanceOrigin, patience: Duration = .seconds(30)) {
        self.loader = loader
        self.origin = origin
        self.patience = patience
    }

    /// - Throws: a failure that describes how the loader breaks the rule of the check.
    public func run(_ check: Check) async throws(ConformanceFailure) {
        let trial = LoadTrial(conformance: self, check: check)
        switch check {
        case .wholeBody: try await trial.wholeBody()
        case .responseWithEachChunk: try await trial.responseWithEachChunk()
        case .incrementalDelivery: try await trial.incrementalDelivery()
        case .oneCallAtATime: try await trial.oneCallAtATime()
        case .emptyBody: try await trial.emptyBody()
        case .conditionalRequest: try await trial.conditionalRequest()
        case .errorStatus: try await trial.errorStatus()
        case .completionOnce: try await trial.completionOnce()
        case .brokenBody: try await trial.brokenBody()
        case .unreachableOrigin: try await trial.unreachableOrigin()
        case .manyAtOnce: try await trial.manyAtOnce()
        case .nothingIsHeld: try await trial.nothingIsHeld()
        case .cancelAtOnce: try await trial.cancelAtOnce()
        case .cancelMidStream: try await trial.cancelMidStream()
        case .cancelWithinCallback: try await trial.cancelWithinCallback()
        case .cancelUnderFire: try await trial.cancelUnderFire()
        case .cancelTwice: try await trial.cancelTwice()
        case .cancelAfterCompletion: try await trial.cancelAfterCompletion()
        case .cancelOfSome: try await trial.cancelOfSome()
        }
    }
}

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
            case .incrementalDelivery: "a chunk is delivered when it arrives, even if the body never ends"
            case .oneCallAtATime: "the closures of a load may be called on any thread, one call at a time"
            case .emptyBody: "an empty body is a success without any bytes"
            case .conditionalRequest:
                "the request's header fields reach the origin, and a 304 is an error, or a success without any bytes"
            case .errorStatus:
                "a status such as 404 ends with an error, or its body comes with a response that has the status"
            case .completionOnce: "completion is called once, after all chunks, and nothing comes after it"
            case .brokenBody: "a body that ends early completes with an error"
            case .unreachableOrigin: "an origin that cannot be reached completes with an error"
            case .manyAtOnce: "each of many concurrent loads receives its own bytes"
            case .nothingIsHeld: "the closures are released when the load has ended and its Cancellable is gone"
            case .cancelAtOnce: "nothing is called after cancel(), even if nothing had arrived yet"
            case .cancelMidStream: "nothing is called after cancel(), no error either"
            case .cancelWithinCallback: "cancel() may be called from within didReceiveData; nothing is called after it"
            case .cancelUnderFire: "no call begins after cancel() has returned, even while chunks arrive"
            case .cancelTwice: "cancel() may be called more than once, and from several threads"
            case .cancelAfterCompletion: "cancel() after completion does nothing"
            case .cancelOfSome: "cancel() ends its own load and no other"
            }
        }
    }
}
