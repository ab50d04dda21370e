import Foundation
import Logging
import MegatonPipeline
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(1))) struct RenderWatchdogTests {
    /// A codec that cannot be interrupted: it ends when the test has seen enough.
    private final class Hanging: ImageProcessing {
        let identifier = "test/hanging"
        let isOver = Atomic(false)

        func process(_ image: PlatformImage) -> PlatformImage? {
            while !isOver.load(ordering: .acquiring) { sched_yield() }
            return image
        }
    }

    private func watchdog(_ pipeline: ImagePipeline, _ limit: Duration) -> RenderWatchdog {
        RenderWatchdog(
            pipeline: pipeline,
            timeLimit: limit,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            interval: .milliseconds(1)
        )
    }

    @Test func theImageOfAHungRenderFailsBeforeTheProcessEnds() async throws {
        let pipeline = ImagePipeline { $0.renderLimits.time = .milliseconds(10) }
        let hanging = Hanging()
        defer { hanging.isOver.store(true, ordering: .releasing) }
        let image = TestImage.quarters(width: 8, height: 8)
        let task = pipeline.imageTask(
            with: ImageRequest(id: "hanging", data: { image }, processors: [hanging])
        )
        #expect(await watchdog(pipeline, .milliseconds(10)).run())
        let error = await #expect(throws: ImagePipeline.Error.self) { _ = try await task.response }
        #expect(error?.code == .renderTimedOut && error?.isRetryable == false, "\(String(describing: error))")
        #expect(error?.message.contains("RenderLimits.time") == true, "\(String(describing: error))")
    }

    @Test func aRenderWithinItsTimeIsLeftAlone() async throws {
        let pipeline = ImagePipeline()
        let hanging = Hanging()
        let image = TestImage.quarters(width: 8, height: 8)
        async let rendered = pipeline.image(
            for: ImageRequest(id: "slow", data: { image }, processors: [hanging])
        )
        while pipeline.longestRunningRender == nil { await Task.yield() }
        let watch = Task { await watchdog(pipeline, .seconds(3600)).run() }
        watch.cancel()
        #expect(await watch.value == false)
        hanging.isOver.store(true, ordering: .releasing)
        _ = try await rendered
    }
}
