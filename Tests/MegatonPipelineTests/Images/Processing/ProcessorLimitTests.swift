import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Processors observe the size and time limits of their pipeline.
@Suite(.timeLimit(.minutes(2))) struct ProcessorLimitTests {
    /// Runs until its deadline or cancellation.
    private struct Endless: ImageProcessing {
        let identifier = "test/endless"
        let begun = Promise<Void>()

        func process(_ image: PlatformImage) -> PlatformImage? { nil }

        func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            begun.resolve(())
            while !context.mustEnd { sched_yield() }
            try context.checkTime()
            return container
        }
    }

    private func limits(_ change: (inout RenderLimits) -> Void) -> RenderLimits {
        var limits = RenderLimits()
        change(&limits)
        return limits
    }

    /// A request for an image that needs no decoding, with processors.
    private func request(_ image: PlatformImage, _ processors: any ImageProcessing...) -> ImageRequest {
        ImageRequest(id: "picture", image: { ImageContainer(image: image) }, processors: processors)
    }

    private func pipeline(_ change: (inout RenderLimits) -> Void) -> ImagePipeline {
        TestPipeline.make(HeldLoader()) { change(&$0.renderLimits) }
    }

    // MARK: - Sizes

    private static let processors: [any ImageProcessing] = [
        .resize(width: 60), .resize(size: CGSize(width: 60, height: 40), crop: true), .circle(),
        .roundedCorners(radius: 4), .gaussianBlur(), .crop(size: PixelSize(width: 60, height: 40)),
        .pad(size: PixelSize(width: 70, height: 70)), .rotate(degrees: 90), .rotate(degrees: 45),
        .flip(.horizontal), .sharpen(), .flatten(), .vips(name: "invert"),
        ImageProcessors.Composition([.flip(.vertical), .sharpen()]),
    ]

    @Test func everyProcessorHasTheLimitsOfItsPipeline() throws {
        let image = try ProcessorFixture.scene(64, 62, bands: 4)
        let mark = ImageProcessors.Watermark(overlay: try ProcessorFixture.plain(4, 4, [9, 9, 9]))
        for processor in Self.processors + [mark] {
            func run(_ bounds: RenderLimits) throws { _ = try ProcessorFixture.run(processor, image, .init(bounds)) }
            #expect(
                TestPipeline.thrownCode { try run(limits { $0.outputSide = 50 }) } == .outputTooLarge,
                "\(processor.identifier)"
            )
            #expect(
                TestPipeline.thrownCode { try run(limits { $0.outputPixels = 2300 }) } == .outputTooLarge,
                "\(processor.identifier)"
            )
            #expect(TestPipeline.thrownCode { try run(RenderLimits()) } == nil, "\(processor.identifier)")
        }
        let wide = ImageProcessors.Pad(size: PixelSize(width: 9000, height: 62))
        #expect(TestPipeline.thrownCode { _ = try ProcessorFixture.run(wide, image) } == .outputTooLarge)
        let wider = ProcessingBounds(limits { $0.outputSide = 9000 })
        #expect(try ProcessorFixture.run(wide, image, wider).size.width == 9000)
    }

    @Test func aPipelineHandsItsLimitsOn() async throws {
        let image = try ProcessorFixture.map(20, 10)
        let pipeline = pipeline { $0.outputSide = 100 }
        let pad = ImageProcessors.Pad(size: PixelSize(width: 101, height: 1))
        let error = await TestPipeline.failure { try await pipeline.image(for: request(image, pad)) }
        #expect(error?.code == .outputTooLarge && error?.stage == .process)
        let told = TestLog<Int>()
        let curious = ContextProcessor { told.append($0.limits.outputSide) }
        _ = try await pipeline.image(for: request(image, curious))
        #expect(told.values == [100])
    }

    // The output of custom processors is checked too, also within a composition.
    @Test func customProcessorsHaveTheLimitsToo() async throws {
        let image = try ProcessorFixture.map(20, 10)
        let large = try ProcessorFixture.plain(101, 1, [9])
        let pipeline = pipeline { $0.outputSide = 100 }
        let own = ImageProcessors.Anonymous(id: "large") { _ in large }
        let smaller = ImageProcessors.Resize(width: 5)
        for processor in [own, ImageProcessors.Composition([own, smaller])] as [any ImageProcessing] {
            let code = await TestPipeline.code { try await pipeline.image(for: request(image, processor)) }
            #expect(code == .outputTooLarge)
        }
        // An image that is only passed on is not checked.
        let same = ImageProcessors.Anonymous(id: "same") { $0 }
        #expect(try await pipeline.image(for: request(large, same)) === large)
    }

    // MARK: - Time

    @Test func nothingBeginsWhenTheTimeIsOver() async throws {
        let image = try ProcessorFixture.map(20, 10)
        let ran = TestLog<Int>()
        let processor = ContextProcessor { _ in ran.append(1) }
        let pipeline = pipeline { $0.time = .zero }
        for processor in [processor, ImageProcessors.Composition([processor])] as [any ImageProcessing] {
            let error = await TestPipeline.failure { try await pipeline.image(for: request(image, processor)) }
            #expect(error?.code == .renderTimedOut && error?.stage == .process)
        }
        #expect(ran.count == 0)
    }

    @Test func aComputationIsEndedInTheMiddle() throws {
        let image = try TestPicture.gradient(1000, 1000)
        let blur = ImageProcessors.GaussianBlur(radius: 100)
        let late = ProcessingBounds(RenderLimits(), RenderDeadline(.now))
        #expect(TestPipeline.thrownCode { _ = try ProcessorFixture.run(blur, image, late) } == .renderTimedOut)
        let bounds = ProcessingBounds()
        let ended = TestPipeline.thrownCode {
            _ = try image.changed(by: "test", bounds) { picture throws(VipsError) in
                bounds.deadline.cancel()
                return try picture.blurred(100)
            }
        }
        #expect(ended == .cancelled)
    }

    @Test func aCustomProcessorIsNotifiedWhenItsTimeIsOver() async throws {
        let image = try ProcessorFixture.map(20, 10)
        let pipeline = pipeline { $0.time = .milliseconds(20) }
        let code = await TestPipeline.code { try await pipeline.image(for: request(image, Endless())) }
        #expect(code == .renderTimedOut)
    }

    @Test func aProcessorIsNotifiedWhenNoRequestWaits() async throws {
        let image = try ProcessorFixture.map(20, 10)
        let pipeline = pipeline { $0.time = .seconds(3600) }
        let endless = Endless()
        let task = pipeline.imageTask(with: request(image, endless))
        await endless.begun.value
        #expect(pipeline.longestRunningRender != nil, "the watchdog sees processors, too")
        task.cancel()
        while pipeline.renders.runningCount > 0, !Task.isCancelled { await Task.yield() }
        #expect(await TestPipeline.code { try await task.response } == .cancelled)
    }

    // The context for calling a processor directly.
    @Test func aCustomContextHasTheDefaults() throws {
        let request = ImageRequest(url: nil)
        let response = ImageResponse(container: try TestPipeline.container(), request: request)
        let context = ImageProcessingContext(request: request, response: response, isCompleted: true)
        #expect(context.limits == RenderLimits() && !context.mustEnd)
        try context.checkTime()
        let short = ImageProcessingContext(
            request: request,
            response: response,
            isCompleted: true,
            limits: limits { $0.time = .zero }
        )
        #expect(short.mustEnd)
        #expect(TestPipeline.thrownCode { try short.checkTime() } == .renderTimedOut)
    }
}
