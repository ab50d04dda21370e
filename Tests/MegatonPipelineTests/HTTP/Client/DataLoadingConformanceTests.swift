import Foundation
import FoundationNetworking
import MegatonPipeline
import MegatonPipelineTesting
import MegatonTestSupport
import Synchronization
import Testing

/// The pipeline's loaders conform to the four points of the contract, and the suite detects loaders that do not.
@Suite(.timeLimit(.minutes(2))) struct DataLoadingConformanceTests {
    @Test(arguments: DataLoadingConformance.Check.allCases)
    func dataLoaderConforms(_ check: DataLoadingConformance.Check) async throws {
        try await OriginServer.runConformance { (origin) async throws in
            try await DataLoadingConformance(Self.loader(), origin: origin).run(check)
        }
    }

    /// Timeouts are long: the contract does not cover time, and a busy machine must not look like a slow origin.
    static func loader() -> DataLoader {
        var configuration = DataLoader.Configuration()
        configuration.addressPolicy.allowsPrivate = true
        (configuration.timeout, configuration.lowSpeedTime) = (.seconds(100), .seconds(100))
        return DataLoader(configuration)
    }

    /// Faults a loader may have, and the checks that must detect them.
    static let faults: [(FaultyLoader.Fault, DataLoadingConformance.Check)] = [
        (.completesTwice, .completionOnce), (.speaksAfterCompletion, .completionOnce),
        (.isDeafToCancel, .cancelMidStream),
        (.isDeafToCancel, .cancelWithinCallback), (.isDeafToCancel, .cancelUnderFire),
        (.tellsOfItsCancellation, .cancelAtOnce), (.tellsOfItsCancellation, .cancelMidStream),
        (.tellsOfItsCancellation, .cancelTwice), (.gathersTheBody, .incrementalDelivery),
        (.hidesErrors, .brokenBody), (.hidesErrors, .unreachableOrigin), (.hidesErrors, .errorStatus),
        (.dropsHeaders, .conditionalRequest), (.losesAChunk, .wholeBody), (.losesAChunk, .oneCallAtATime),
        (.mixesUp, .manyAtOnce), (.forgetsTheResponse, .responseWithEachChunk), (.holdsOn, .nothingIsHeld),
        (.overlaps, .oneCallAtATime), (.speaksOfNothing, .emptyBody), (.completesWhenCancelled, .cancelAfterCompletion),
        (.cancelsTheNext, .cancelOfSome),
    ]

    @Test(arguments: faults)
    func theSuiteSeesIt(_ fault: FaultyLoader.Fault, _ check: DataLoadingConformance.Check) async throws {
        try await OriginServer.runConformance { (origin) async throws in
            let loader = FaultyLoader(Self.loader(), fault)
            let conformance = DataLoadingConformance(loader, origin: origin, patience: .seconds(2))
            let failure = try #require(
                await #expect(throws: ConformanceFailure.self) { try await conformance.run(check) }
            )
            #expect(failure.check == check.rawValue && failure.rule == check.rule && !failure.found.isEmpty)
        }
    }

    @Test func everyCheckSeesSomething() {
        #expect(Set(Self.faults.map(\.1)) == Set(DataLoadingConformance.Check.allCases))
    }
}
