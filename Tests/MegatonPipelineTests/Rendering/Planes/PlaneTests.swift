import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite struct PlaneTests {
    /// Upright rows of a plane that is stored as `[[1, 2, 3], [4, 5, 6]]` (CIPA DC-008 section 4.6.4).
    @Test(arguments: [
        (1, [[1, 2, 3], [4, 5, 6]]), (2, [[3, 2, 1], [6, 5, 4]]), (3, [[6, 5, 4], [3, 2, 1]]),
        (4, [[4, 5, 6], [1, 2, 3]]), (5, [[1, 4], [2, 5], [3, 6]]), (6, [[4, 1], [5, 2], [6, 3]]),
        (7, [[6, 3], [5, 2], [4, 1]]), (8, [[3, 6], [2, 5], [1, 4]]),
    ])
    func isTurnedUpright(_ orientation: Int, _ expected: [[UInt8]]) throws {
        let plane = try #require(Plane(width: 3, height: 2))
        for (index, value) in (1...6).enumerated() { plane.bytes[index / 3 * plane.stride + index % 3] = UInt8(value) }
        let turned = try #require(plane.turned(EXIFOrientation(orientation)))
        let rows = (0..<turned.height).map { row in
            (0..<turned.width).map { turned.bytes[row * turned.stride + $0] }
        }
        #expect(rows == expected)
    }

    /// Fault: with AVX-512 a library read wrong samples for some columns of these widths, such as 97 to 99.
    @Test func aSlopeStaysASlope() throws {
        let slope = try #require(Plane(width: 200, height: 16))
        for row in 0..<16 { for column in 0..<200 { slope.bytes[row * slope.stride + column] = UInt8(column) } }
        let axes = PlaneAxes()
        for width in 60..<200 {
            let size = PixelSize(width: width, height: 8)
            let geometry = PlaneGeometry(PixelSize(width: 200, height: 16), covered: (200, 16), to: size)
            let scaled = try #require(axes.scale(slope, geometry))
            for column in 4..<(width - 4) {
                let expected = (Double(column) + 0.5) * 200 / Double(width) - 0.5
                let found = Double(scaled.bytes[4 * scaled.stride + column])
                #expect(abs(found - expected) < 1.1, "column \(column) of \(width): \(found), not \(expected)")
            }
        }
    }

    private static func geometry(
        _ index: Int,
        _ source: (Int, Int),
        _ rendition: Rendition,
        orientation: Int = 1,
        shrink: Int = 1,
        from planes: ChromaSampling = .s420,
        to sampling: ChromaSampling = .s420
    ) -> PlaneGeometry {
        var probe = ImageProbe(
            type: .jpeg,
            width: source.0,
            height: source.1,
            bands: 3,
            frames: 1,
            orientation: orientation,
            isProgressive: false
        )
        probe.planes = planes
        let step = RenderPlan(probe, [rendition]).steps[0]
        let picture = PlanarImage(
            width: Double(source.0) / Double(shrink),
            height: Double(source.1) / Double(shrink),
            sampling: planes,
            planes: []
        )
        return PlaneGeometry(plane: index, of: step, from: picture, EXIFOrientation(orientation), to: sampling)
    }

    @Test func evenSidesAreScaledAsTheyAre() {
        let wanted = Rendition(width: 200, height: 100)
        let luma = Self.geometry(0, (800, 400), wanted)
        #expect(luma.size == PixelSize(width: 200, height: 100) && luma.source == PixelSize(width: 800, height: 400))
        #expect(luma.part == .init(left: 0, top: 0, width: 800, height: 400))
        let colour = Self.geometry(1, (800, 400), wanted)
        #expect(colour.size == PixelSize(width: 100, height: 50) && colour.source == PixelSize(width: 400, height: 200))
        #expect(colour.part == .init(left: 0, top: 0, width: 400, height: 200))
    }

    /// A plane that is decoded at an eighth is as long as the source, not as its blocks.
    @Test func partsOfSamplesCount() {
        let luma = Self.geometry(0, (1001, 403), Rendition(width: 100, height: 40, fit: .fill), shrink: 8)
        #expect(luma.source == PixelSize(width: 125, height: 50))
        #expect(luma.part == .init(left: 0, top: 0, width: 1001.0 / 8, height: 403.0 / 8))
    }

    /// An odd side has one more sample, at the right of the image, or at the left if the image is mirrored afterwards.
    @Test func oddSidesAreFilledUp() {
        let wanted = Rendition(width: 5, height: 4, fit: .fill)
        for index in 0...1 {
            let factor = Double(index + 1)
            let plain = Self.geometry(index, (50, 40), wanted)
            #expect(plain.size.width == 6 / (index + 1))
            #expect(plain.part == .init(left: 0, top: 0, width: 60 / factor, height: 40 / factor))
            let mirrored = Self.geometry(index, (50, 40), wanted, orientation: 2)
            #expect(mirrored.part == .init(left: -10 / factor, top: 0, width: 60 / factor, height: 40 / factor))
        }
        #expect(Self.geometry(0, (50, 40), wanted, to: .s444).size.width == 5)
        #expect(Self.geometry(0, (50, 40), wanted, from: .gray, to: .gray).size.width == 5)
    }

    /// A crop is given for the upright image, and applied to the stored one.
    @Test func cutsAreTurned() {
        let wanted = Rendition(width: 20, height: 20, fit: .cover, focus: .init(x: 1, y: 0.5))
        // Stored 40x20; upright, after a quarter turn, 20x40 scaled from 80x160.
        let plain = Self.geometry(0, (160, 80), wanted)
        #expect(plain.part == .init(left: 80, top: 0, width: 80, height: 80))
        let turned = Self.geometry(0, (160, 80), wanted, orientation: 6)
        #expect(turned.size == PixelSize(width: 20, height: 20))
        #expect(turned.part == .init(left: 40, top: 0, width: 80, height: 80))
        let top = Rendition(width: 20, height: 20, fit: .cover, gravity: .north)
        // The upright top is stored at the left; with mirroring, at the right.
        #expect(Self.geometry(0, (160, 80), top, orientation: 6).part.left == 0)
        #expect(Self.geometry(0, (160, 80), top, orientation: 8).part.left == 80)
    }

    @Test func weightsAreComputedOnce() throws {
        let axes = PlaneAxes(limit: 2)
        let sizes = (1...3).map { Self.geometry(0, (80, 40), Rendition(width: 10 * $0)).across }
        let first = try #require(axes.axis(sizes[0]))
        let second = try #require(axes.axis(sizes[1]))
        #expect(axes.axis(sizes[0]) === first)
        _ = try #require(axes.axis(sizes[2]))
        #expect(axes.axis(sizes[0]) === first, "those that were used last stay")
        #expect(axes.axis(sizes[1]) !== second, "others are computed again")
    }
}
