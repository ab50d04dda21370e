import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The cutout of `cover`, enlargement, and the effect of the limits on sizes.
@Suite struct GeometryTests {
    private func step(
        _ width: Int,
        _ height: Int,
        _ rendition: Rendition,
        limits: RenderLimits = RenderLimits()
    ) -> RenderPlan.Step {
        let probe = ImageProbe(
            type: .jpeg,
            width: width,
            height: height,
            bands: 3,
            frames: 1,
            orientation: 1,
            isProgressive: false
        )
        return RenderPlan(probe, [rendition], limits: limits).steps[0]
    }

    @Test(arguments: [
        (Rendition.Gravity.northWest, 0, 0), (.north, 0, 0), (.northEast, 0, 0), (.west, 0, 0), (.southEast, 0, 0),
    ])
    func gravityMovesNothingWhereNothingIsLeftOver(_ gravity: Rendition.Gravity, _ left: Int, _ top: Int) {
        let step = step(400, 400, Rendition(width: 100, height: 100, fit: .cover, gravity: gravity))
        #expect(step.crop == nil && step.scaled == PixelSize(width: 100, height: 100))
    }

    @Test(arguments: [
        (Rendition.Gravity.northWest, 0, 0), (.north, 50, 0), (.northEast, 100, 0), (.west, 0, 0), (.center, 50, 0),
        (.east, 100, 0), (.southWest, 0, 0), (.south, 50, 0), (.southEast, 100, 0),
    ])
    func gravityOfAWideImage(_ gravity: Rendition.Gravity, _ left: Int, _ top: Int) {
        let crop = step(400, 200, Rendition(width: 100, height: 100, fit: .cover, gravity: gravity)).crop
        #expect(crop?.place == .at(left: left, top: top) && crop?.size == PixelSize(width: 100, height: 100))
    }

    @Test(arguments: [
        (Rendition.Gravity.northWest, 0), (.north, 0), (.east, 50), (.center, 50), (.south, 100), (.southEast, 100),
    ])
    func gravityOfATallImage(_ gravity: Rendition.Gravity, _ top: Int) {
        let crop = step(200, 400, Rendition(width: 100, height: 100, fit: .cover, gravity: gravity)).crop
        #expect(crop?.place == .at(left: 0, top: top))
    }

    /// `auto` of imgproxy; a square counts as wide.
    @Test(arguments: [
        (400, 200, 100, 50, Rendition.Fit.cover), (200, 400, 50, 100, .cover), (400, 200, 50, 100, .inside),
        (200, 400, 100, 50, .inside), (300, 300, 100, 50, .cover), (300, 300, 50, 100, .inside),
        (300, 200, 80, 80, .cover), (200, 300, 80, 80, .inside),
    ])
    func autoCoversASizeOfItsOrientation(_ width: Int, _ height: Int, _ x: Int, _ y: Int, _ fit: Rendition.Fit) {
        func plan(_ fit: Rendition.Fit, _ change: (inout Rendition) -> Void = { _ in }) -> RenderPlan.Step {
            var rendition = Rendition(width: x, height: y, fit: fit)
            change(&rendition)
            return step(width, height, rendition)
        }
        let (auto, expected) = (plan(.auto), plan(fit))
        #expect(auto.output == expected.output && auto.scaled == expected.scaled && auto.crop == expected.crop)
        // The orientation is that of the rotated source.
        let turned = plan(.auto) { $0.rotate = .quarter }.output
        let upright = step(height, width, Rendition(width: x, height: y, fit: .auto)).output
        #expect(turned == upright)
        let toTheLeft = plan(.auto) { $0.gravity = .west }.crop
        #expect(toTheLeft?.size == auto.crop?.size)
    }

    @Test func pixelsDecideOfAttentionAndEntropy() {
        func place(_ gravity: Rendition.Gravity) -> RenderPlan.Crop.Place? {
            step(400, 200, Rendition(width: 100, height: 100, fit: .cover, gravity: gravity)).crop?.place
        }
        #expect(place(.attention) == .attention && place(.entropy) == .entropy)
    }

    @Test(arguments: [(0.0, 0), (0.25, 0), (0.5, 50), (0.6, 70), (0.75, 100), (1.0, 100)])
    func theFocusStaysInTheMiddleAsFarAsTheEdgesLetIt(_ x: Double, _ left: Int) {
        let rendition = Rendition(width: 100, height: 100, fit: .cover, focus: .init(x: x, y: 0.5))
        #expect(step(400, 200, rendition).crop?.place == .at(left: left, top: 0))
        let tall = Rendition(width: 100, height: 100, fit: .cover, focus: .init(x: 0.5, y: x))
        #expect(step(200, 400, tall).crop?.place == .at(left: 0, top: left))
    }

    @Test(arguments: [
        (Rendition.Fit.inside, 200, 100), (.outside, 400, 200), (.cover, 200, 200), (.contain, 200, 200),
        (.fill, 200, 200),
    ])
    func everyFitEnlargesWhenAsked(_ fit: Rendition.Fit, _ width: Int, _ height: Int) {
        let result = step(100, 50, Rendition(width: 200, height: 200, fit: fit, enlarge: true))
        #expect(result.output == PixelSize(width: width, height: height))
        let large = step(1000, 500, Rendition(width: 200, height: 200, fit: fit, enlarge: true)).output
        #expect(large == step(1000, 500, Rendition(width: 200, height: 200, fit: fit)).output)
    }

    @Test func dprMultipliesAndDoesNotEnlarge() {
        #expect(step(4000, 2000, Rendition(width: 100, dpr: 2)).output == PixelSize(width: 200, height: 100))
        #expect(step(4000, 2000, Rendition(width: 101, dpr: 1.5)).output == PixelSize(width: 152, height: 76))
        #expect(step(150, 75, Rendition(width: 100, dpr: 4)).output == PixelSize(width: 150, height: 75))
        let cover = Rendition(width: 100, height: 50, fit: .cover, dpr: 3)
        #expect(step(4000, 4000, cover).output == PixelSize(width: 300, height: 150))
    }

    /// A size over the limits is reduced by one factor for both sides, so the aspect ratio stays.
    @Test func dprEndsAtTheLimits() throws {
        let contain = step(10, 10, Rendition(width: 4096, height: 1024, fit: .contain, dpr: 4)).output
        #expect(contain == PixelSize(width: 8192, height: 2048))
        let square = step(10, 10, Rendition(width: 4096, height: 4096, fit: .contain, dpr: 4)).output
        #expect(square.width == square.height && square.width * square.height <= 50_000_000 && square.width > 7000)
    }

    /// Fault: the sides were reduced as if the result had both of them, also if it has fewer pixels.
    @Test(arguments: [Rendition.Fit.inside, .auto, .outside]) func dprCountsByTheResult(_ fit: Rendition.Fit) {
        func size(_ side: Int, height: Int? = nil, dpr: Double) -> PixelSize {
            // `auto` is `inside` for a size that is high while the source is wide.
            let height = height ?? (fit == .auto ? side + 1 : side)
            let rendition = Rendition(width: side, height: height, fit: fit, dpr: dpr, enlarge: true)
            return step(3200, 2000, rendition).output
        }
        if fit == .outside {
            #expect(size(1000, dpr: 4) == PixelSize(width: 6400, height: 4000))
        } else {
            #expect(size(2000, dpr: 4) == PixelSize(width: 8000, height: 5000))
        }
        let most = size(5000, dpr: 4)
        #expect(most.width * most.height <= 50_000_000 && most.width == 8192 && most.height == 5120)
        #expect(size(300, height: 4000, dpr: 4).width <= 8192)
    }

    @Test func sizesThatFollowFromTheSourceAreReducedToTheLimits() {
        // Only the width is given, and the image is tall.
        #expect(step(5000, 10_000, Rendition(width: 5000)).output == PixelSize(width: 4096, height: 8192))
        #expect(step(4096, 8192, Rendition(width: 5000)).output == PixelSize(width: 4096, height: 8192))
        #expect(step(16_384, 1000, Rendition(width: 10, height: 1000, fit: .outside)).output.width == 8192)
        let area = step(8000, 7000, Rendition(width: 8000)).output
        #expect(area.width * area.height <= 50_000_000 && area.width > 7500)
        #expect(step(8000, 6250, Rendition(width: 8000)).output == PixelSize(width: 8000, height: 6250))
        let thin = step(1, 10_000, Rendition(width: 8192, fit: .outside, enlarge: true)).output
        #expect(thin == PixelSize(width: 1, height: 8192))
    }

    @Test func stillsAndAnimationsAreDecodedApart() {
        var probe = ImageProbe(
            type: .gif,
            width: 100,
            height: 100,
            bands: 4,
            frames: 9,
            orientation: 1,
            isProgressive: false
        )
        let wanted = [
            Rendition(width: 50, format: .gif, animated: true), Rendition(width: 80),
            Rendition(width: 20, format: .webp, animated: true),
        ]
        let plan = RenderPlan(probe, wanted)
        #expect(plan.passes.map(\.frames) == [9, 1] && plan.passes.map(\.steps) == [[0, 2], [1]])
        #expect(plan.passes.map(\.base.width) == [50, 80])
        probe.type = .heic
        #expect(RenderPlan(probe, wanted).passes.map(\.frames) == [1], "pictures of their own, and no animation")
    }

    // MARK: - Pixels

    /// The gravity shows in the pixels, and not only in the plan.
    @Test func cropsByItsGravity() throws {
        let data = TestImage.quarters(width: 80, height: 40)
        func corner(_ gravity: Rendition.Gravity, focus: Rendition.FocalPoint? = nil) throws -> [UInt8] {
            let rendition = Rendition(width: 10, height: 10, fit: .cover, format: .png, gravity: gravity, focus: focus)
            let plan = RenderPlan(try VipsEngine().probe(data, type: .png), [rendition])
            let image = try VipsEngine().execute(plan, data, deadline: RenderDeadline(.now + .seconds(30)))[0]
            return Array(try PixelReader(image.data).pixel(1, 1).prefix(3))
        }
        #expect(try corner(.west) == [255, 0, 0] && corner(.east) == [0, 255, 0])
        #expect(try corner(.center, focus: .init(x: 0.9, y: 0.9)) == [0, 255, 0])
        #expect(try corner(.center, focus: .init(x: 0.1, y: 0.1)) == [255, 0, 0])
    }

    @Test(arguments: [Rendition.Gravity.attention, .entropy], [0, 1])
    func findsWhatThereIsToSee(_ gravity: Rendition.Gravity, _ side: Int) throws {
        // A colorful checkered patch in a plain gray image.
        let patch = side == 0 ? 20..<120 : 480..<580
        let data = TestImage.png(width: 600, height: 100) { x, y in
            guard patch.contains(x) && (10..<90).contains(y) else { return (120, 120, 120, 255) }
            return (x / 8 + y / 8) % 2 == 0 ? (230, 60, 40, 255) : (250, 220, 190, 255)
        }
        let rendition = Rendition(width: 100, height: 100, fit: .cover, format: .png, gravity: gravity)
        let plan = RenderPlan(try VipsEngine().probe(data, type: .png), [rendition])
        let image = try VipsEngine().execute(plan, data, deadline: RenderDeadline(.now + .seconds(30)))[0]
        let pixels = try PixelReader(image.data)
        let seen = (0..<100).filter { pixels.pixel($0, 50)[0] > 200 }.count
        #expect(seen > 60, "\(gravity) \(side): \(seen)")
    }
}
