import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Several sizes from one decode: small ones are made from larger ones, and look like those that are made alone.
@Suite(.timeLimit(.minutes(2))) struct LadderTests {
    private static let probe = ImageProbe(
        type: .png,
        width: 4000,
        height: 3000,
        bands: 3,
        frames: 1,
        orientation: 1,
        isProgressive: false
    )

    /// From large to small, with pairs of the same size, and fits that read the image more than once.
    private static let wanted = [
        Rendition(name: "tiny", width: 17, height: 13, fit: .fill, format: .png),
        Rendition(name: "large", width: 160, height: 160, format: .png),
        Rendition(name: "again", width: 160, height: 160, format: .webp, lossless: true),
        Rendition(name: "nearly", width: 150, height: 150, format: .png),
        Rendition(name: "half", width: 80, height: 80, format: .png),
        Rendition(name: "half again", width: 80, height: 80, format: .webp, lossless: true),
        Rendition(name: "cover", width: 33, height: 40, fit: .cover, format: .png, gravity: .northWest),
        Rendition(name: "attention", width: 40, height: 25, fit: .cover, format: .png, gravity: .attention),
        Rendition(name: "contain", width: 36, height: 50, fit: .contain, format: .png),
        Rendition(name: "faithful", width: 39, height: 39, format: .png, qualityProfile: .faithful),
    ]

    private func render(_ wanted: [Rendition], _ data: Data) throws -> [EncodedImage] {
        let engine = VipsEngine()
        let probe = try engine.probe(data, type: try #require(AssetType(data)))
        return try engine.execute(RenderPlan(probe, wanted), data, deadline: RenderDeadline(.now + .seconds(60)))
    }

    @Test(
        .enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"),
        arguments: [
            "photos/p001.jpg", "edge/sharp/Landscape_6.jpg", "edge/sharp/blackbug.png", "edge/nuke/cat.gif",
            "edge/libvips/1.webp", "edge/libvips/rgba.png", "edge/sharp/p3.png",
            "edge/sharp/16-bit-grey-alpha.png", "edge/sharp/Flag_of_the_Netherlands-16bit.png",
        ]
    )
    func severalLookLikeEachAlone(_ name: String) throws {
        let data = try Corpus.data(name)
        let together = try render(Self.wanted, data)
        #expect(together.count == Self.wanted.count)
        for (rendition, image) in zip(Self.wanted, together) {
            let one = try PixelReader(image.data)
            let alone = try PixelReader(try #require(render([rendition], data).first).data)
            let distance = one.distance(to: alone)
            #expect(distance < 3, "\(name) \(rendition.name): \(distance)")
        }
    }

    /// Each frame has its own pyramid: each shows its own gray.
    @Test(arguments: [Rendition.Format.gif, .webp]) func framesStayApart(_ format: Rendition.Format) throws {
        let wanted = [20, 160, 70, 33].map { Rendition(width: $0, format: .webp, lossless: true, animated: true) }
        let data = try TestPicture.animation(200, 100, frames: 4, as: format)
        for (rendition, image) in zip(wanted, try render(wanted, data)) {
            let roll = try PixelReader(image.data, options: "n=-1")
            #expect(roll.width == rendition.width)
            try #require(roll.height == 4 * image.size.height)
            for frame in 0..<4 {
                for y in [0, image.size.height - 1] {
                    let grey = Int(roll.pixel(0, frame * image.size.height + y)[0])
                    #expect(abs(grey - frame * 10) <= 2, "\(roll.width), frame \(frame), row \(y): \(grey)")
                }
            }
        }
    }

    /// The memory for intermediate levels is bounded, however many sizes there are.
    @Test func rungsAreTogetherNoLargerThanTheirBase() {
        let plan = RenderPlan(Self.probe, (64...1280).reversed().map { Rendition(width: $0) })
        let pass = plan.passes[0]
        let base = Double(pass.base.width * pass.base.height)
        var levels: [Double] = [base]
        for index in plan.fromLargeToSmall(pass) {
            let area = Double(plan.steps[index].scaled.width * plan.steps[index].scaled.height)
            if pass.isLevel(area, below: levels[levels.count - 1]) { levels.append(area) }
        }
        #expect(levels.count > 6)
        #expect(levels.dropFirst().reduce(0, +) <= base)
        let alone = RenderPlan(Self.probe, [Rendition(width: 1280)])
        #expect(plan.cost.bytes > alone.cost.bytes + Int(base) * 4)
    }

    @Test func aFaithfulOrALoneStepKeepsNothing() {
        let faithful = [1280, 320].map { Rendition(width: $0, qualityProfile: .faithful) }
        for wanted in [faithful, [Rendition(width: 1280)]] {
            let pass = RenderPlan(Self.probe, wanted).passes[0]
            #expect(pass.pyramidMargin == nil && !pass.isLevel(1, below: 100))
        }
    }
}
