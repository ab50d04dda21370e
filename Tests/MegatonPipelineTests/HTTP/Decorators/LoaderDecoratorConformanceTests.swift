import Foundation
import MegatonPipeline
import MegatonPipelineTesting
import MegatonTestSupport
import Testing

/// The decorators conform to `DataLoading` if the loader beneath does.
@Suite(.timeLimit(.minutes(2))) struct LoaderDecoratorConformanceTests {
    @Test(arguments: DataLoadingConformance.Check.allCases)
    func retryingConforms(_ check: DataLoadingConformance.Check) async throws {
        var policy = RetryingDataLoader.Policy()
        policy.delay = .milliseconds(1)
        try await run(check, RetryingDataLoader(DataLoadingConformanceTests.loader(), policy))
    }

    @Test(arguments: DataLoadingConformance.Check.allCases)
    func cachingConforms(_ check: DataLoadingConformance.Check) async throws {
        try await run(
            check,
            CachingDataLoader(DataLoadingConformanceTests.loader(), cache: DataCachingConformanceTests.NukeStyleCache())
        )
    }

    /// A truncated body is recorded together with its failure; replaying is tested elsewhere.
    @Test(arguments: DataLoadingConformance.Check.allCases)
    func recordingConforms(_ check: DataLoadingConformance.Check) async throws {
        let directory = try TestDirectory()
        let folder = URL(fileURLWithPath: directory.path)
        try await run(check, RecordingDataLoader(folder: folder, .record(DataLoadingConformanceTests.loader())))
    }

    private func run(_ check: DataLoadingConformance.Check, _ loader: any DataLoading) async throws {
        try await OriginServer.runConformance { (origin) async throws in
            try await DataLoadingConformance(loader, origin: origin).run(check)
        }
    }
}
