import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct GeometryProcessorTests {
    private typealias Crop = ImageProcessors.Crop
    private typealias Pad = ImageProcessors.Pad
    private typealias Rotate = ImageProcessors.Rotate
    private typealias Flip = ImageProcessors.Flip

    private static let places: [(Rendition.Gravity, Int, Int)] = [
        (.northWest, 0, 0), (.north, 1, 0), (.northEast, 2, 0), (.west, 0, 1), (.center, 1, 1), (.east, 2, 1),
        (.southWest, 0, 2), (.south, 1, 2), (.southEast, 2, 2),
    ]

    // MARK: - Crop

    @Test(arguments: places.indices) func cropsAtAPlace(_ index: Int) throws {
        let (gravity, x, y) = Self.places[index]
        let image = try ProcessorFixture.map(101, 51)
        let result = try ProcessorFixture.run(Crop(size: PixelSize(width: 11, height: 9), gravity: gravity), image)
        #expect(result.size == PixelSize(width: 11, height: 9))
        #expect(result.pixel(0, 0) == [UInt8(45 * x), UInt8(21 * y), 0])
    }

    @Test func aCropIsNoLargerThanTheImage() throws {
        let image = try ProcessorFixture.map(20, 50)
        let tall = try ProcessorFixture.run(Crop(size: PixelSize(width: 100, height: 10)), image)
        #expect(tall.size == PixelSize(width: 20, height: 10))
        #expect(tall.pixel(0, 0) == [0, 20, 0])
        #expect(try ProcessorFixture.run(Crop(size: PixelSize(width: 900, height: 900)), image) === image)
    }

    @Test(arguments: [(0.0, 0.0, 0, 0), (1, 1, 90, 40), (0.5, 0.5, 45, 20), (0.9, 0.1, 85, 0), (0.25, 0.5, 20, 20)])
    func aFocalPointIsInTheMiddle(_ x: Double, _ y: Double, _ left: Int, _ top: Int) throws {
        let focus = Rendition.FocalPoint(x: x, y: y)
        let result = try ProcessorFixture.run(
            Crop(size: PixelSize(width: 10, height: 10), focus: focus),
            ProcessorFixture.map(100, 50)
        )
        #expect(result.pixel(0, 0) == [UInt8(left), UInt8(top), 0])
    }

    @Test(arguments: [Rendition.Gravity.attention, .entropy])
    func aCropFindsWhatThereIs(_ gravity: Rendition.Gravity) throws {
        // Flat gray, with a red checkerboard at the right.
        let image = try ProcessorFixture.picture(200, 100) { x, y in
            (140..<170).contains(x) && (30..<60).contains(y) && (x / 3 + y / 3) % 2 == 0
                ? [250, 20, 20] : [128, 128, 128]
        }
        let crop = Crop(size: PixelSize(width: 60, height: 60), gravity: gravity)
        let result = try ProcessorFixture.run(crop, image)
        #expect(result.size == PixelSize(width: 60, height: 60))
        let pixels = [UInt8](result.pixels())
        let red = stride(from: 0, to: pixels.count, by: 3).count { pixels[$0] > 200 && pixels[$0 + 1] < 100 }
        #expect(red > 300, "\(red) of 450 red pixels")
    }

    @Test(arguments: [Rendition.Gravity.attention, .entropy])
    func smallAndOddImagesCanBeCroppedByContent(_ gravity: Rendition.Gravity) throws {
        for bands in 1...4 {
            for (width, height) in [(1, 1), (1, 7), (7, 1), (3, 3), (33, 17)] {
                let image = try ProcessorFixture.scene(width, height, bands: bands)
                let part = PixelSize(width: max(1, width / 2), height: max(1, height / 2))
                let result = try ProcessorFixture.run(Crop(size: part, gravity: gravity), image)
                #expect(result.size == part)
                #expect(result.bands == bands)
            }
        }
    }

    @Test func aCropThatIsNoneIsRefused() throws {
        let image = try ProcessorFixture.map(8, 8)
        for (width, height) in [(0, 4), (4, -1), (.min, .min)] {
            let size = PixelSize(width: width, height: height)
            #expect(try ProcessorFixture.failure(Crop(size: size), image) == .processingFailed)
            #expect(try ProcessorFixture.failure(Pad(size: size), image) == .processingFailed)
        }
        for (x, y) in [(Double.nan, 0.5), (0.5, 1.1), (-0.1, 0), (.infinity, 0)] {
            let crop = Crop(size: PixelSize(width: 2, height: 2), focus: Rendition.FocalPoint(x: x, y: y))
            #expect(try ProcessorFixture.failure(crop, image) == .processingFailed)
        }
    }

    // MARK: - Pad

    @Test(arguments: places.indices) func padsAroundAPlace(_ index: Int) throws {
        let (gravity, x, y) = Self.places[index]
        let image = try ProcessorFixture.plain(3, 5, [1, 2, 3])
        let size = PixelSize(width: 13, height: 11)
        let clear = try ProcessorFixture.run(Pad(size: size, gravity: gravity), image)
        #expect(clear.size == size)
        #expect(clear.bands == 4)
        let green = try ProcessorFixture.run(
            Pad(size: size, gravity: gravity, background: Color(red: 0, green: 255, blue: 0)),
            image
        )
        #expect(green.bands == 3)
        for row in 0..<11 {
            for column in 0..<13 {
                let isWithin = (5 * x..<5 * x + 3).contains(column) && (3 * y..<3 * y + 5).contains(row)
                #expect(clear.pixel(column, row) == (isWithin ? [1, 2, 3, 255] : [0, 0, 0, 0]))
                #expect(green.pixel(column, row) == (isWithin ? [1, 2, 3] : [0, 255, 0]))
            }
        }
    }

    @Test func padsEachSide() throws {
        let image = try ProcessorFixture.plain(3, 5, [1, 2, 3])
        let padding = Rendition.Padding(top: 1, right: 2, bottom: 3, left: 4)
        let result = try ProcessorFixture.run(Pad(padding, background: Color(red: 0, green: 255, blue: 0)), image)
        #expect(result.size == PixelSize(width: 9, height: 9) && result.bands == 3)
        for y in 0..<9 {
            for x in 0..<9 {
                let isWithin = (4..<7).contains(x) && (1..<6).contains(y)
                #expect(result.pixel(x, y) == (isWithin ? [1, 2, 3] : [0, 255, 0]))
            }
        }
        #expect(try ProcessorFixture.failure(Pad(Rendition.Padding(-1)), image) == .processingFailed)
        #expect(try ProcessorFixture.failure(Pad(Rendition.Padding(.max)), image) == .processingFailed)
    }

    @Test func aCanvasTakesEveryKindOfImage() throws {
        let size = PixelSize(width: 5, height: 5)
        func corner(_ pixel: [UInt8], _ background: Color?) throws -> [UInt8] {
            try ProcessorFixture.run(
                Pad(size: size, background: background),
                ProcessorFixture.plain(1, 1, pixel)
            ).pixel(0, 0)
        }
        #expect(try corner([9], nil) == [0, 0])
        #expect(try corner([9], .white) == [255])
        #expect(try corner([9], Color(red: 255, green: 0, blue: 0)) == [255, 0, 0])
        #expect(try corner([9, 0], .white) == [255, 255])
        #expect(try corner([9, 8, 7, 0], .black) == [0, 0, 0, 255])
    }

    @Test func aCanvasCutsNothingOff() throws {
        let image = try ProcessorFixture.map(20, 10)
        let result = try ProcessorFixture.run(Pad(size: PixelSize(width: 5, height: 30)), image)
        #expect(result.size == PixelSize(width: 20, height: 30))
        #expect(try ProcessorFixture.run(Pad(size: PixelSize(width: 5, height: 5)), image) === image)
    }

    @Test func aCanvasHasLimits() throws {
        let image = try ProcessorFixture.map(2, 2)
        for (width, height) in [(8193, 1), (8192, 8192), (.max, .max)] {
            let pad = Pad(size: PixelSize(width: width, height: height))
            #expect(try ProcessorFixture.failure(pad, image) == .outputTooLarge)
        }
        for gravity in [Rendition.Gravity.attention, .entropy] {
            let pad = Pad(size: PixelSize(width: 9, height: 9), gravity: gravity)
            #expect(try ProcessorFixture.failure(pad, image) == .processingFailed)
        }
    }

    // MARK: - Rotate and flip

    @Test func quartersMovePixels() throws {
        let image = try ProcessorFixture.map(7, 4)
        let quarter = try ProcessorFixture.run(Rotate(degrees: 90), image)
        #expect(quarter.size == PixelSize(width: 4, height: 7))
        #expect(quarter.pixel(3, 0) == [0, 0, 0])
        #expect(quarter.pixel(0, 6) == [6, 3, 0])
        let half = try ProcessorFixture.run(Rotate(degrees: -180), image)
        #expect(half.pixel(0, 0) == [6, 3, 0])
        let last = try ProcessorFixture.run(Rotate(degrees: 270), image)
        #expect(last.pixel(0, 6) == [0, 0, 0])
        #expect(last.bands == 3)
        for degrees in [0, 360, -720] {
            #expect(try ProcessorFixture.run(Rotate(degrees: Double(degrees)), image) === image)
        }
        #expect(Rotate(degrees: -90) == Rotate(degrees: 270))
        #expect(Rotate(degrees: -1e-300) == Rotate(degrees: 0))
    }

    @Test func otherAnglesGrowTheCanvas() throws {
        // Red above, blue below: an eighth of a turn clockwise moves red to the right.
        let image = try ProcessorFixture.picture(100, 100) { _, y in y < 50 ? [255, 0, 0] : [0, 0, 255] }
        let result = try ProcessorFixture.run(Rotate(degrees: 45), image)
        #expect((140...143).contains(result.size.width))
        #expect((140...143).contains(result.size.height))
        let middle = result.size.width / 2
        #expect(near(result.pixel(middle + 40, middle), [255, 0, 0, 255]))
        #expect(near(result.pixel(middle - 40, middle), [0, 0, 255, 255]))
        #expect(result.pixel(0, 0) == [0, 0, 0, 0])
        let white = try ProcessorFixture.run(Rotate(degrees: 45, background: .white), image)
        #expect(white.bands == 3)
        #expect(white.pixel(0, 0) == [255, 255, 255])
    }

    @Test func turnedEdgesHaveNoFringe() throws {
        for bands in [1, 2, 3, 4] {
            let pixel = [UInt8](repeating: 255, count: bands)
            let result = try ProcessorFixture.run(Rotate(degrees: 30), ProcessorFixture.plain(60, 40, pixel))
            let bytes = [UInt8](result.pixels())
            let count = result.bands
            for start in stride(from: 0, to: bytes.count, by: count) where bytes[start + count - 1] > 16 {
                guard bytes[start..<start + count - 1].allSatisfy({ $0 > 240 }) else {
                    Issue.record("\(bands) bands: \(bytes[start..<start + count])")
                    return
                }
            }
        }
    }

    @Test(arguments: 1...4) func everyAngleTakesEveryKindOfImage(_ bands: Int) throws {
        for degrees in [1.0, 45, 90, 359.9] {
            for (width, height) in [(1, 1), (1, 30), (31, 17)] {
                let image = try ProcessorFixture.scene(width, height, bands: bands)
                #expect(try ProcessorFixture.failure(Rotate(degrees: degrees), image) == nil)
                #expect(try ProcessorFixture.failure(Rotate(degrees: degrees, background: .white), image) == nil)
            }
        }
    }

    @Test func anAngleHasLimits() throws {
        let image = try ProcessorFixture.map(4, 4)
        for degrees in [Double.nan, .infinity] {
            #expect(try ProcessorFixture.failure(Rotate(degrees: degrees), image) == .processingFailed)
        }
        let wide = try ProcessorFixture.plain(8100, 8100 / 3, [9])
        #expect(try ProcessorFixture.failure(Rotate(degrees: 45), wide) == .outputTooLarge)
    }

    @Test func mirrors() throws {
        let image = try ProcessorFixture.map(7, 4)
        let sides = try ProcessorFixture.run(Flip(.horizontal), image)
        #expect(sides.pixel(0, 0) == [6, 0, 0])
        let ends = try ProcessorFixture.run(Flip(.vertical), image)
        #expect(ends.pixel(0, 0) == [0, 3, 0])
        #expect(try ProcessorFixture.run(Flip(.vertical), ends).pixels() == image.pixels())
        let both = try ProcessorFixture.run(Flip(.both), image)
        #expect(both.pixel(0, 0) == [6, 3, 0])
        #expect(try both.pixels() == ProcessorFixture.run(Flip(.vertical), sides).pixels())
        for bands in 1...4 {
            let other = try ProcessorFixture.scene(5, 1, bands: bands)
            #expect(try ProcessorFixture.run(Flip(.horizontal), other).pixel(0, 0) == other.pixel(4, 0))
        }
    }

    @Test func aResultThatIsTooLargeIsNotMade() throws {
        let line = try ProcessorFixture.plain(8193, 2, [9])
        let processors: [any ImageProcessing] = [
            .flip(.vertical), .gaussianBlur(), .sharpen(), .rotate(degrees: 90), .roundedCorners(radius: 1),
            .vips(name: "invert"), .crop(size: PixelSize(width: 8193, height: 1)),
        ]
        for processor in processors {
            #expect(try ProcessorFixture.failure(processor, line) == .outputTooLarge, "\(processor.identifier)")
        }
    }
}
