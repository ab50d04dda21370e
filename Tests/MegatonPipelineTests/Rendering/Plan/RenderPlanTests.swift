import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite struct RenderPlanTests {
    private func step(
        _ width: Int,
        _ height: Int,
        _ rendition: Rendition,
        orientation: Int = 1
    ) -> RenderPlan.Step {
        let probe = ImageProbe(
            type: .jpeg,
            width: width,
            height: height,
            bands: 3,
            frames: 1,
            orientation: orientation,
            isProgressive: false
        )
        return RenderPlan(probe, [rendition]).steps[0]
    }

    @Test(arguments: [
        // source, fit, wanted, result
        (4000, 3000, Rendition.Fit.inside, 256, 256, 256, 192), (3000, 4000, .inside, 256, 256, 192, 256),
        (100, 50, .inside, 256, 256, 100, 50), (10_000, 1, .inside, 256, 256, 256, 1),
        (4000, 3000, .outside, 256, 256, 341, 256), (100, 50, .outside, 256, 256, 100, 50),
        (4000, 3000, .cover, 256, 256, 256, 256), (3000, 4000, .cover, 200, 100, 200, 100),
        (640, 480, .cover, 960, 960, 480, 480), (1000, 100, .cover, 200, 200, 100, 100),
        (4000, 3000, .contain, 256, 256, 256, 256), (100, 50, .contain, 256, 256, 256, 256),
        (4000, 3000, .fill, 200, 200, 200, 200), (100, 500, .fill, 200, 200, 100, 200),
    ])
    func fits(
        _ width: Int,
        _ height: Int,
        _ fit: Rendition.Fit,
        _ wantedWidth: Int,
        _ wantedHeight: Int,
        _ resultWidth: Int,
        _ resultHeight: Int
    ) {
        let result = step(width, height, Rendition(width: wantedWidth, height: wantedHeight, fit: fit)).output
        #expect(result == PixelSize(width: resultWidth, height: resultHeight))
    }

    @Test func leavesAMissingSideToTheAspect() {
        #expect(step(4000, 3000, Rendition(width: 400)).output == PixelSize(width: 400, height: 300))
        #expect(step(4000, 3000, Rendition(height: 300)).output == PixelSize(width: 400, height: 300))
    }

    @Test(arguments: 5...8) func swapsSidesForARotatedImage(_ orientation: Int) {
        let size = step(4000, 3000, Rendition(width: 256, height: 256), orientation: orientation).output
        #expect(size == PixelSize(width: 192, height: 256))
    }

    @Test func neverCutsMoreThanThereIs() {
        for width in stride(from: 1, through: 400, by: 7) {
            for height in stride(from: 1, through: 400, by: 11) {
                let step = step(width, height, Rendition(width: 199, height: 101, fit: .cover))
                let crop = step.crop?.size ?? step.scaled
                #expect(crop.width <= step.scaled.width && crop.height <= step.scaled.height)
                #expect(crop.width <= width && crop.height <= height)
            }
        }
    }

    @Test func startsFromTheLargestOfSeveral() {
        let probe = ImageProbe(
            type: .jpeg,
            width: 4000,
            height: 3000,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
        let plan = RenderPlan(probe, [Rendition(width: 128), Rendition(width: 1280), Rendition(width: 640)])
        #expect(plan.passes.map(\.base) == [PixelSize(width: 1280, height: 960)])
    }

    @Test func limitsAreCheckedAtTheirEdges() throws {
        func probe(_ width: Int, _ height: Int, bands: Int = 3) -> ImageProbe {
            ImageProbe(
                type: .png,
                width: width,
                height: height,
                bands: bands,
                frames: 1,
                orientation: 1,
                isProgressive: false
            )
        }
        let limits = RenderLimits()
        try limits.check(probe(10_000, 5000))
        try limits.check(probe(16_384, 3051))
        let bad: [(ImageProbe, ImagePipeline.Error.Code)] = [
            (probe(10_000, 5001), .imageTooLarge), (probe(16_385, 1), .sideTooLong), (probe(1, 16_385), .sideTooLong),
            (probe(10, 10, bands: 6), .tooManyBands),
        ]
        for (probe, code) in bad {
            #expect { try limits.check(probe) } throws: { ($0 as? ImagePipeline.Error)?.code == code }
        }
        #expect { try limits.check(probe(0, 5)) } throws: { ($0 as? ImagePipeline.Error)?.code == .corruptImage }
    }
}
