import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Rotations and flips of renditions.
@Suite(.timeLimit(.minutes(2))) struct TurnTests {
    private static let source = TestImage.quarters(width: 80, height: 40)

    private static let turns: [(Rendition.Rotation?, Rendition.Flip?, [EffectFixture.Quarter])] = [
        (nil, nil, [.red, .green, .blue, .white]), (.quarter, nil, [.blue, .red, .white, .green]),
        (.half, nil, [.white, .blue, .green, .red]),
        (.threeQuarters, nil, [.green, .white, .red, .blue]), (nil, .horizontal, [.green, .red, .white, .blue]),
        (nil, .vertical, [.blue, .white, .red, .green]), (nil, .both, [.white, .blue, .green, .red]),
        (.quarter, .horizontal, [.red, .blue, .green, .white]), (.half, .both, [.red, .green, .blue, .white]),
    ]

    @Test(arguments: turns.indices) func quartersMove(_ index: Int) throws {
        let (rotation, flip, wanted) = Self.turns[index]
        let rendition = EffectFixture.png(40, 40) { ($0.rotate, $0.flip) = (rotation, flip) }
        let image = try EffectFixture.render(rendition, Self.source)
        let isUpright = rotation == .quarter || rotation == .threeQuarters
        #expect(image.size == (isUpright ? PixelSize(width: 20, height: 40) : PixelSize(width: 40, height: 20)))
        #expect(try EffectFixture.quarters(image) == wanted)
    }

    /// The size is that of the rotated image.
    @Test func theSizeIsAppliedAfterTheRotation() throws {
        let wide = EffectFixture.png(10, nil) { $0.rotate = .quarter }
        #expect(try EffectFixture.render(wide, Self.source).size == PixelSize(width: 10, height: 20))
        let contained = EffectFixture.png(30, 30) { rendition in
            (rendition.fit, rendition.rotate, rendition.background) = (.contain, .threeQuarters, .black)
        }
        #expect(try EffectFixture.render(contained, Self.source).size == PixelSize(width: 30, height: 30))
        let filled = EffectFixture.png(12, 34) { ($0.fit, $0.rotate) = (.fill, .quarter) }
        #expect(try EffectFixture.render(filled, Self.source).size == PixelSize(width: 12, height: 34))
    }

    /// Gravity is a direction in the result, and the focal point a point of the source.
    @Test func cropsFollowTheRotation() throws {
        // Rotated by a quarter turn: blue and red above, white and green below.
        let top = EffectFixture.png(20, 10) { rendition in
            (rendition.fit, rendition.gravity, rendition.rotate) = (.cover, .north, .quarter)
        }
        #expect(try EffectFixture.quarters(EffectFixture.render(top, Self.source)) == [.blue, .red, .blue, .red])
        let focused = EffectFixture.png(10, 10) { rendition in
            // The middle of the green quarter.
            (rendition.fit, rendition.focus) = (.cover, Rendition.FocalPoint(x: 0.75, y: 0.25))
            (rendition.rotate, rendition.flip) = (.quarter, .horizontal)
        }
        let quarters = try EffectFixture.quarters(EffectFixture.render(focused, Self.source))
        #expect(quarters[2...3] == [.green, .white], "rotated and mirrored, the green quarter is at the bottom left")
    }

    @Test func thePointTurnsWithTheImage() {
        let point = Rendition.FocalPoint(x: 0.25, y: 0.125)
        func turned(_ rotation: Rendition.Rotation?, _ flip: Rendition.Flip?) -> Rendition.FocalPoint {
            var rendition = Rendition()
            (rendition.rotate, rendition.flip) = (rotation, flip)
            return point.turned(by: rendition)
        }
        #expect(turned(.quarter, nil) == .init(x: 0.875, y: 0.25))
        #expect(turned(.half, nil) == .init(x: 0.75, y: 0.875))
        #expect(turned(.threeQuarters, nil) == .init(x: 0.125, y: 0.75))
        #expect(turned(nil, .horizontal) == .init(x: 0.75, y: 0.125))
        #expect(turned(.quarter, .vertical) == .init(x: 0.875, y: 0.75))
    }

    /// Orientation 6 is a quarter turn: another one makes a half turn.
    @Test func theRotationFollowsTheOrientation() throws {
        let image = try TestSampling.s444.jpeg(64, 32) { x, y in
            x < 32 ? (y < 16 ? (255, 0, 0) : (0, 0, 255)) : (y < 16 ? (0, 255, 0) : (255, 255, 255))
        }
        let rotated = TestEXIF.jpeg(image, orientation: 6)
        let rendition = EffectFixture.png(64, 64) { $0.rotate = .quarter }
        let result = try EffectFixture.render(rendition, rotated)
        #expect(result.size == PixelSize(width: 64, height: 32))
        #expect(try EffectFixture.quarters(result) == [.white, .blue, .green, .red])
    }

    @Test func framesTurnOneByOne() throws {
        let data = try TestPicture.animation(24, 12, frames: 3, as: .gif)
        var rendition = Rendition(width: 6, height: 12, format: .webp, lossless: true, animated: true)
        (rendition.rotate, rendition.flip) = (.quarter, .vertical)
        let result = try EffectFixture.render(rendition, data)
        #expect(result.size == PixelSize(width: 6, height: 12))
        let frames = try PixelReader(result.data, options: "n=-1")
        #expect(frames.width == 6 && frames.height == 36)
        for frame in 0..<3 {
            let gray = [UInt8](repeating: UInt8(frame * 10), count: 3)
            #expect(near(Array(frames.pixel(3, frame * 12 + 6).prefix(3)), gray, by: 3), "frame \(frame)")
        }
    }
}
