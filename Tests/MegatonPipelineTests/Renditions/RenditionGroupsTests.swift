import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Groups of renditions whose first request is cancelled.
@Suite(.timeLimit(.minutes(1))) struct RenditionGroupsTests {
    private let keys = ["a", "b"].map { CacheKey(.rendition, [$0]) }
    private let options = RenditionRequestOptions(ImageRequest(url: TestPipeline.url("a")))
    private let groups = RenditionGroups(isCoalescingEnabled: true)

    // Fault: its keys stayed in a group that no request made; the next request for one of them opened it for its own
    // key alone, and a request for the other joined that and got nothing.
    @Test func aRequestThatIsCancelledBeforeItsGroupBeginsLeavesNone() async throws {
        let part = groups.parts(keys, options)[0]
        let request = Task { [groups, options] in  // Awaited below.
            withUnsafeCurrentTask { $0?.cancel() }
            return await groups.outcome(of: part, options, priority: .normal) { _, _ in [:] }
        }
        await #expect(throws: ImageError.self) { try await request.value.result.get() }
        let next = groups.parts([keys[0]], options)[0]
        #expect(next.id != part.id)
        #expect(groups.parts([keys[1]], options)[0].id != part.id)
    }

    // Fault: the second one stayed without a result, and so did each later request.
    @Test func aKeyThatAReopenedGroupDoesNotMakeIsInNoGroup() async throws {
        let release = Promise<Bool>()
        let part = groups.parts(keys, options)[0]
        // Two requests for one key each were assigned to the group before its first request left.
        let requests = keys.map { key in
            Task { [groups, options] in  // Awaited below.
                await groups.outcome(of: (part.id, [key]), options, priority: .normal) { made, _ in
                    _ = await release.value
                    return Dictionary(uniqueKeysWithValues: made.map { ($0, .failure(ImageError(.notFound, "none"))) })
                }
            }
        }
        while groups.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
        release.resolve(true)
        for request in requests { #expect(try await request.value.result.get().count == 1) }
        for key in keys { #expect(groups.parts([key], options)[0].id != part.id) }
    }

    // Through the pipeline: the requests above have their renditions.
    @Test func renditionsOfACancelledRequestAreMadeForOthers() async throws {
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.addressPolicy.allowsPrivate = true
            let pipeline = ImagePipeline(configuration: .init(dataLoader: DataLoader(loader)))
            let request = ImageRequest(url: origin.url("/a"))
            let wanted = [16, 32].map { Rendition(width: $0, format: .png) }
            let cancelled = Task {  // Awaited below.
                withUnsafeCurrentTask { $0?.cancel() }
                return try await pipeline.renditions(wanted, for: request)
            }
            await #expect(throws: ImageError.self) { try await cancelled.value }
            origin.hold()
            let others = wanted.map { one in
                Task { try await pipeline.renditions([one], for: request)[0].size.width }  // Awaited below.
            }
            while pipeline.groups.subscriberCount < 2, !Task.isCancelled { await Task.yield() }
            origin.release()
            for (one, other) in zip(wanted, others) { #expect(try await other.value == one.width) }
        }
    }
}
