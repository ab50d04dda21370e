import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct PipelineLookupTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    // Two processors, the original in a data cache: one memory lookup for each step, one data-cache lookup for
    // all.
    @Test func theOriginalIsFoundInOneLook() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1", "2"], options: .disableDiskCacheWrites)
            await probe.keepOriginal(image, of: request)
            _ = try await probe.pipeline.image(for: request)
            let keys = [["1", "2"], ["1"], []].map { probe.image(probe.request(origin.url("/a"), $0)) }
            let partial = CacheKey.partial(of: .original(of: request)).description
            #expect(probe.cache.lookups == [keys + [partial]] && keys[2] == probe.original(request))
            #expect(probe.memory.reads == 3)
            #expect(probe.memory.writes == [ImageCacheKey(request: request)])
            #expect(origin.total == 0 && probe.decodes == 1 && probe.cache.writes.isEmpty)
        }
    }

    // A miss is one lookup for all: steps, the original and its partial download.
    @Test func aMissIsOneLookForAll() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeOriginalData }
            let request = probe.request(origin.url("/a"), ["1", "2"])
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            #expect(probe.cache.allLookups.map(\.count) == [4])
            #expect(probe.memory.reads == 3 && probe.memory.writes.count == 1)
            #expect(probe.cache.writes == [probe.original(request)])
            #expect(origin.total == 1)
        }
    }

    // The same for bytes, with and without processors, and for requests that allow only cached data.
    @Test func aMissOfBytesIsOneLook() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            for steps in [[], ["1"]] {
                probe.cache.forgetCounts()
                _ = try await probe.pipeline.data(for: probe.request(origin.url("/\(steps.count)"), steps))
                #expect(probe.cache.allLookups.map(\.count) == [2 + steps.count])
            }
            probe.cache.forgetCounts()
            let silent = probe.request(origin.url("/b"), ["1"], options: .returnCacheDataDontLoad)
            _ = await TestPipeline.failure { try await probe.pipeline.data(for: silent) }
            #expect(probe.cache.allLookups.map(\.count) == [3] && origin.total == 2)
        }
    }

    // A lookup that started before the bytes arrived is repeated.
    @Test func aLookThatIsTooOldIsRepeated() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.imageCache = nil }
            let (first, late) = (probe.request(origin.url("/a")), probe.request(origin.url("/a"), ["1"]))
            probe.cache.hold([probe.image(late)])
            async let image = probe.pipeline.image(for: late)
            while probe.cache.allLookups.isEmpty, !Task.isCancelled { await Task.yield() }
            _ = try await probe.pipeline.data(for: first)
            probe.cache.release()
            _ = try await image
            #expect(origin.total == 1)
        }
    }

    // Keys of loads that have ended, in a bounded table.
    @Test func endsAreRememberedForAWhile() {
        let ends = RecentEnds(limit: 2)
        let keys = (0..<4).map { CacheKey(.original, ["\($0)"]) }
        let mark = ends.mark
        #expect(!ends.hasEnded(keys[0], since: mark))
        ends.note(keys[0])
        #expect(ends.hasEnded(keys[0], since: mark) && !ends.hasEnded(keys[1], since: mark))
        #expect(!ends.hasEnded(keys[0], since: ends.mark))
        for key in keys[1...] { ends.note(key) }
        #expect(ends.hasEnded(keys[0], since: mark), "forgotten: a look of that time is too old")
        #expect(!ends.hasEnded(keys[3], since: ends.mark))
    }

    // An image in memory is looked up nowhere else.
    @Test func aHitInMemoryIsOneLook() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1"])
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            probe.memory.forgetCounts()
            probe.cache.forgetCounts()
            #expect(try await probe.pipeline.imageTask(with: request).response.cacheType == .memory)
            await probe.settle()
            #expect(probe.memory.reads == 1 && probe.memory.writes.isEmpty)
            #expect(probe.cache.lookups.isEmpty && probe.cache.writes.isEmpty)
            #expect(probe.encodes == 1)
        }
    }

    // A request that disables a cache does not look it up.
    @Test func aDisabledCacheIsNotLookedUp() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(
                origin.url("/a"),
                ["1"],
                options: [.disableMemoryCache, .disableDiskCacheReads]
            )
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            #expect(probe.cache.lookups.isEmpty)
            #expect(probe.memory.reads == 0 && probe.memory.writes.isEmpty)
            #expect(probe.cache.writes.count == 2, "writing was not forbidden")
        }
    }
}
