import Synchronization
import Testing

/// Ends the disk caches of a test before their folders are removed: a cache writes its staged data even after its last
/// reference is gone, and would create its folder again.
struct DataCacheScope: SuiteTrait, TestTrait, TestScoping {
    /// The fixtures of one test.
    final class Fixtures: Sendable {
        private let all = Mutex<[DataCacheFixture]>([])

        func add(_ fixture: DataCacheFixture) { all.withLock { $0.append(fixture) } }

        func end() async {
            for fixture in all.withLock({ $0 }) { await fixture.end() }
        }
    }

    @TaskLocal static var current: Fixtures?

    let isRecursive = true

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        let fixtures = Fixtures()
        do {
            try await Self.$current.withValue(fixtures) { try await function() }
        } catch {
            await fixtures.end()
            throw error
        }
        await fixtures.end()
    }
}

extension SuiteTrait where Self == DataCacheScope {
    /// For tests that use a `DataCacheFixture`.
    static var diskCaches: Self { DataCacheScope() }
}
