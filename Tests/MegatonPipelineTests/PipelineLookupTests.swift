import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct PipelineLookupTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    // B 55: two processors, the original in a data cache: a look at memory for each step, and one for all at the cache.
    @Test func theOriginalIsFoundInOneLook() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe()
            let request = probe.request(origin.url("/a"), ["1", "2"], options: .disableDiskCacheWrites)
            await probe.keepOriginal(image, of: request)
            _ = try await probe.pipeline.image(for: request)
            let keys = [["1", "2"], ["1"], []].map { probe.image(probe.request(origin.url("/a"), $0)) }
            #expect(probe.cache.lookups == [keys + [probe.original(request)]])
            #expect(probe.memory.reads == 3)
            #expect(probe.memory.writes == [ImageCacheKey(request: request)])
            #expect(origin.total == 0 && probe.decodes == 1 && probe.cache.writes.isEmpty)
        }
    }

    // B 55, K 4: a miss is one look for all, and one more where the right to fetch is taken.
    @Test func aMissIsOneLookForAll() async throws {
        try await run { (origin) async throws in
            let probe = PipelineProbe { $0.dataCachePolicy = .storeOriginalData }
            let request = probe.request(origin.url("/a"), ["1", "2"])
            _ = try await probe.pipeline.image(for: request)
            await probe.settle()
            #expect(probe.cache.lookups.map(\.count) == [4, 1])
            #expect(probe.memory.reads == 3 && probe.memory.writes.count == 1)
            #expect(probe.cache.writes == [probe.original(request)])
            #expect(origin.total == 1)
        }
    }

    // B 55: what is in memory is not looked for anywhere else.
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

    // B 55: who does not want a cache asked has none asked.
    @Test func noCacheIsAskedForWhoWantsNone() async throws {
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
