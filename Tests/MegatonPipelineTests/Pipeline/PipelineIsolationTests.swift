import Foundation
import Logging
import MegatonTestSupport
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// Slow work of one pipeline or image does not delay others.
@Suite(.timeLimit(.minutes(2))) struct PipelineIsolationTests {
    private let image = TestImage.quarters(width: 64, height: 64)

    private func run(_ body: (OriginServer) async throws -> Void) async throws {
        try await OriginServer.run(answer: { [image] _ in .image(image) }, body)
    }

    private struct MeetingDecoder: ImageDecoding {
        let meeting: Meeting

        func decode(_ data: Data) throws -> ImageContainer {
            meeting.join()
            return try TestPipeline.container()
        }
    }

    private struct MeetingEncoder: ImageEncoding {
        let meeting: Meeting

        func encode(_ image: PlatformImage) -> Data? {
            meeting.join()
            return TestPipeline.png
        }
    }

    // Neither a slow cache nor a full queue of one pipeline delays another pipeline.
    @Test func aSlowPipelineHoldsUpNoOther() async throws {
        try await run { (origin) async throws in
            let probes = (0..<3).map { _ in PipelineProbe { $0.fetchConcurrency = 1 } }
            let gate = TaskTestGate()
            let slow = probes[0].request(origin.url("/slow"))
            probes[0].cache.hold([probes[0].original(slow)])
            let task = probes[0].pipeline.imageTask(with: slow)
            while probes[0].cache.lookups.isEmpty, !Task.isCancelled { await Task.yield() }
            let bytes: @Sendable () async throws -> Data = { [image] in
                await gate.pass()
                return image
            }
            let full = probes[1].pipeline.imageTask(with: ImageRequest(id: "full", data: bytes))
            await gate.begun.value
            _ = try await probes[2].pipeline.image(for: probes[2].request(origin.url("/other"), ["1"]))
            #expect(task.status.result == nil && full.status.result == nil)
            probes[0].cache.release()
            gate.open.resolve(())
            _ = try await task.response
            _ = try await full.response
        }
    }

    // Decodes of one pipeline run in parallel; Nuke runs them one after the other.
    @Test func imagesAreDecodedConcurrently() async throws {
        let meeting = Meeting(2)
        let pipeline = TestPipeline.make(HeldLoader(isHeld: false)) {
            $0.renderConcurrency = 2
            $0.makeImageDecoder = { _ in MeetingDecoder(meeting: meeting) }
        }
        for task in ["a", "b"].map({ pipeline.imageTask(with: TestPipeline.url($0)) }) { _ = try await task.response }
    }

    /// A skipped cache write is counted in the metrics of its task, and a series of them is logged once, at its start.
    @Test func skippedCacheWritesAreCountedAndLoggedOnce() async throws {
        try await run { (origin) async throws in
            let (meeting, log) = (Meeting(2), LogRecorder())
            let probe = PipelineProbe {
                ($0.dataCachePolicy, $0.renderConcurrency, $0.refreshConcurrency) = (.storeEncodedImages, 2, 1)
                $0.makeImageEncoder = { _ in MeetingEncoder(meeting: meeting) }
                $0.logger = Logger(label: "test") { _ in log }
            }
            var dropped: [Int] = []
            for path in ["/a", "/b", "/c"] {
                let task = probe.pipeline.imageTask(with: probe.request(origin.url(path)))
                _ = try await task.response
                dropped.append(task.metrics.dropped)
            }
            #expect(dropped == [0, 1, 1])
            let lines = log.recorded.filter { $0.contains("too many background tasks") }
            #expect(lines.count == 1 && lines[0].hasPrefix("warning"), "\(lines)")
            meeting.join()
            await probe.settle()
        }
    }

    // Cache writes after responses have a limit; further ones are skipped.
    @Test func fewWaitToBeEncoded() async throws {
        try await run { (origin) async throws in
            let meeting = Meeting(2)
            let probe = PipelineProbe {
                ($0.dataCachePolicy, $0.renderConcurrency, $0.refreshConcurrency) = (.storeEncodedImages, 2, 1)
                $0.makeImageEncoder = { _ in MeetingEncoder(meeting: meeting) }
            }
            for path in ["/a", "/b", "/c"] { _ = try await probe.pipeline.image(for: probe.request(origin.url(path))) }
            #expect(probe.pipeline.revalidator.count == 1)
            meeting.join()
            await probe.settle()
            #expect(probe.cache.writes == [probe.image(probe.request(origin.url("/a")))])
        }
    }
}
