import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonPipeline

/// Delegates written for Nuke 12 and 13.2 are called.
@Suite(.timeLimit(.minutes(2))) struct NukeDelegateTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    /// Forbids storing, in both spellings of the closure.
    private final class Plain: ImagePipeline.Delegate {
        func willCache(
            data: Data,
            image: ImageContainer?,
            for request: ImageRequest,
            pipeline: ImagePipeline,
            completion: @escaping (Data?) -> Void
        ) {
            completion(nil)
            completion(data)
        }
    }

    private final class Concurrent: ImagePipeline.Delegate {
        func willCache(
            data: Data,
            image: ImageContainer?,
            for request: ImageRequest,
            pipeline: ImagePipeline,
            completion: @escaping @Sendable (Data?) -> Void
        ) {
            Thread.detachNewThread { completion(image == nil ? data : nil) }
        }
    }

    private final class Silent: ImagePipeline.Delegate {}

    private func run(_ delegate: any ImagePipeline.Delegate, _ body: (OriginServer, PipelineProbe) async throws -> Void)
        async throws
    {
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            try await body(origin, PipelineProbe(delegate: delegate) { $0.imageCache = nil })
        }
    }

    @Test func aDelegateMayForbidStoring() async throws {
        try await run(Plain()) { origin, probe in
            for _ in 0..<2 { _ = try await probe.pipeline.data(for: origin.url("/a")) }
            #expect(probe.cache.entries.isEmpty && origin.total == 2)
        }
    }

    @Test func itMayAnswerLater() async throws {
        try await run(Concurrent()) { origin, probe in
            let request = probe.request(origin.url("/a"), ["1"])
            _ = try await probe.pipeline.image(for: request)
            _ = try await probe.pipeline.data(for: origin.url("/a"))
            await probe.settle()
            #expect(Array(probe.cache.entries.keys) == [probe.original(request)])
        }
    }

    @Test func aDelegateWithoutAnAnswerForbidsNothing() async throws {
        try await run(Silent()) { origin, probe in
            for _ in 0..<2 { _ = try await probe.pipeline.data(for: origin.url("/a")) }
            #expect(origin.total == 1)
        }
    }

    /// Replaces the decoded image with a placeholder.
    private final class Decompressing: ImagePipeline.Delegate {
        let isOn: Bool
        let asked = TestLog<ImageRequest>()

        init(isOn: Bool) { self.isOn = isOn }

        func shouldDecompress(
            response: ImageResponse,
            for request: ImageRequest,
            pipeline: ImagePipeline
        ) -> Bool { isOn }

        func decompress(
            response: ImageResponse,
            request: ImageRequest,
            pipeline: ImagePipeline
        ) -> ImageResponse {
            asked.append(request)
            guard let small = try? TestPipeline.container() else { return response }
            var response = response
            response.container = small
            return response
        }
    }

    @Test(arguments: [true, false]) func itMayDecompress(_ isOn: Bool) async throws {
        let delegate = Decompressing(isOn: isOn)
        try await run(delegate) { origin, probe in
            for _ in 0..<2 {
                let response = try await probe.pipeline.imageTask(with: origin.url("/a")).response
                #expect(response.image.size.width == (isOn ? 2 : 64))
            }
            #expect(delegate.asked.count == (isOn ? 2 : 0), "of the origin's bytes, and of the cache's")
        }
    }
}
