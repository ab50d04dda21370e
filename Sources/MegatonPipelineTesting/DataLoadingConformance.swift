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
    public let loader: any DataLoading
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
