import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Each limit at its edge: just under it passes, just over it fails with its own error code.
@Suite(.timeLimit(.minutes(2))) struct LimitTests {
    private func render(
        _ rendition: Rendition,
        _ data: Data,
        _ change: (inout RenderLimits) -> Void = { _ in },
        budget: Int = 4 << 30
    ) async -> ImagePipeline.Error.Code? {
        var limits = RenderLimits()
        change(&limits)
        let renderer = Renderer(
            engine: VipsEngine(),
            limits: limits,
            types: AssetType.supported,
            threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread),
            budget: MemoryBudget(bytes: budget)
        )
        do {
            _ = try await renderer.render([rendition], from: data, context: "a.png")
            return nil
        } catch {
            #expect(error.message.hasPrefix("a.png: "), "\(error)")
            return error.code
        }
    }

    private static let small = TestImage.quarters(width: 20, height: 10)

    @Test func pixelsSidesAndBandsOfTheSource() async {
        let rendition = Rendition(width: 4)
        #expect(await render(rendition, Self.small) { $0.pixels = 200 } == nil)
        #expect(await render(rendition, Self.small) { $0.pixels = 199 } == .imageTooLarge)
        #expect(await render(rendition, Self.small) { $0.side = 20 } == nil)
        #expect(await render(rendition, Self.small) { $0.side = 19 } == .sideTooLong)
        #expect(await render(rendition, Self.small) { $0.bands = 4 } == nil)
        #expect(await render(rendition, Self.small) { $0.bands = 3 } == .tooManyBands)
    }

    /// Fault: a library user could ask for a canvas of any size, and got it.
    @Test func aCanvasForTheAskingHasTheOutputLimits() async {
        let fault = Rendition(width: 12_000, height: 12_000, fit: .contain, format: .png)
        #expect(await render(fault, Self.small) == .outputTooLarge)
        let wide = Rendition(width: 8193, height: 1, fit: .contain, format: .png)
        #expect(await render(wide, Self.small) == .outputTooLarge)
        #expect(await render(Rendition(width: 8193), Self.small) == .outputTooLarge, "whatever the source has")
        let largest = Rendition(width: 8192, height: 1, fit: .contain, format: .png)
        #expect(await render(largest, Self.small) == nil)
        #expect(await render(Rendition(width: 8192, height: 8192, fit: .contain), Self.small) == .outputTooLarge)
        #expect(await render(Rendition(width: 8192, height: 8192), Self.small) == nil, "20x10 is what comes out")
    }

    @Test(arguments: Rendition.Fit.allCases) func pixelsOfTheOutput(_ fit: Rendition.Fit) async {
        let rendition = Rendition(width: 40, height: 40, fit: fit, format: .png, enlarge: true)
        let isExact = fit != .inside && fit != .outside
        #expect(await render(rendition, Self.small) { $0.outputPixels = 3200 } == nil)
        #expect(await render(rendition, Self.small) { $0.outputPixels = 1599 } == (isExact ? .outputTooLarge : nil))
        #expect(await render(rendition, Self.small) { $0.outputSide = 39 } == .outputTooLarge)
    }

    /// Covering a square with a thin strip would scale the strip to a giant first.
    @Test func intermediateImagesHaveLimitsToo() async {
        let strip = TestImage.png(width: 4, height: 400) { _, _ in (9, 9, 9, 255) }
        let cover = Rendition(width: 80, height: 80, fit: .cover, format: .png, enlarge: true)
        #expect(await render(cover, strip) == nil)
        let larger = Rendition(width: 82, height: 82, fit: .cover, format: .png, enlarge: true)
        #expect(await render(larger, strip) == .outputTooLarge, "82x8200")
    }

    @Test func anImageThatCostsTooMuchForTheProcessIsRefused() async throws {
        let rendition = Rendition(width: 4)
        let cost = RenderPlan(try VipsEngine().probe(Self.small, type: .png), [rendition]).cost.bytes
        #expect(cost > 0)
        #expect(await render(rendition, Self.small, budget: cost) == nil)
        #expect(await render(rendition, Self.small, budget: cost - 1) == .tooCostly)
    }

    @Test func valuesThatCannotWorkAreRefusedForLibraryUsersToo() async {
        let bad = [
            Rendition(), Rendition(width: 0), Rendition(width: 5, fit: .cover), Rendition(width: 5, quality: 0),
            Rendition(width: 5, dpr: 5), Rendition(width: 5, dpr: .nan), Rendition(width: 5, animated: true),
            Rendition(width: 5, height: 5, fit: .cover, focus: .init(x: 2, y: 0)),
        ]
        for rendition in bad { #expect(await render(rendition, Self.small) == .renderFailed) }
    }

    /// libheif has limits of its own, and only reports that the file is bad.
    @Test func aSizeThatTheCodecRefusesIsALimitToo() async {
        func avif(_ width: UInt32, _ height: UInt32) -> Data {
            func big(_ number: UInt32) -> Data { withUnsafeBytes(of: number.bigEndian) { Data($0) } }
            return big(20) + Data("ftypavif".utf8) + big(0) + Data("mif1".utf8) + big(20) + Data("ispe".utf8) + big(0)
                + big(width) + big(height)
        }
        let rendition = Rendition(width: 4)
        #expect(await render(rendition, avif(16_385, 1)) == .sideTooLong)
        #expect(await render(rendition, avif(10_000, 5001)) == .imageTooLarge)
        #expect(await render(rendition, avif(UInt32.max, UInt32.max)) == .sideTooLong)
        #expect(await render(rendition, avif(10_000, 5000)) == .corruptImage, "it has no pixels")
    }

    @Test func theCostGrowsWithTheWork() {
        func cost(
            _ type: AssetType,
            _ rendition: Rendition = Rendition(width: 100),
            frames: Int = 1,
            isProgressive: Bool = false,
            sampleBytes: Int = 1
        ) -> RenderCost {
            var probe = ImageProbe(
                type: type,
                width: 4000,
                height: 3000,
                bands: 3,
                frames: frames,
                orientation: 1,
                isProgressive: isProgressive
            )
            probe.sampleBytes = sampleBytes
            return RenderPlan(probe, [rendition]).cost
        }
        let plain = cost(.jpeg)
        #expect(!plain.isBuffered && !cost(.png).isBuffered && !cost(.webp).isBuffered)
        #expect(cost(.jpeg, isProgressive: true).isBuffered && cost(.png, isProgressive: true).isBuffered)
        #expect(
            cost(.avif).isBuffered && cost(.heic).isBuffered
                && cost(.jpeg, Rendition(width: 9, format: .avif)).isBuffered
        )
        #expect(cost(.jpeg, isProgressive: true).bytes > plain.bytes * 4)
        #expect(cost(.png, isProgressive: true).bytes > cost(.png).bytes * 2)
        #expect(cost(.png, sampleBytes: 2).bytes > cost(.png).bytes * 3 / 2)
        let animated = cost(.gif, Rendition(width: 1000, format: .gif, animated: true), frames: 9)
        #expect(
            animated.isBuffered && animated.bytes > cost(.gif, Rendition(width: 1000, format: .gif), frames: 9).bytes
        )
        let probe = ImageProbe(
            type: .jpeg,
            width: 4000,
            height: 3000,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
        #expect(RenderPlan(decoding: probe, as: nil).cost.bytes > 4000 * 3000 * 3, "it is held as a whole")
        #expect(RenderPlan(decoding: probe, as: .init(maxPixelSize: 10)).cost.bytes < 4000 * 3000)
    }
}
