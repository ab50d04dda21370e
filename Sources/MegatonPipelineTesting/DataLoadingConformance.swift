public import MegatonPipeline

/// Tries a loader on the contract of `DataLoading`, point by point.
///
/// It belongs to no test library. With Swift Testing:
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
    /// How long a call that must come is waited for. What passes never waits for so long.
    public var patience: Duration

    /// - Parameter patience: 30 seconds unless told otherwise.
    public init(_ loader: any DataLoading, origin: ConformanceOrigin, patience: Duration = .seconds(30)) {
        self.loader = loader
        self.origin = origin
        self.patience = patience
    }

    /// - Throws: what the loader does otherwise than the rule of the check says.
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
