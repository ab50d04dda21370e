import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct ShapeProcessorTests {
    private typealias Circle = ImageProcessors.Circle
    private typealias RoundedCorners = ImageProcessors.RoundedCorners

    @Test(arguments: [(101, 51, 51), (51, 101, 51), (64, 64, 64), (1, 1, 1), (1, 9, 1), (2, 3, 2)])
    func aCircleHasTheShorterSide(_ width: Int, _ height: Int, _ side: Int) throws {
        for bands in 1...4 {
            let image = try ProcessorFixture.scene(width, height, bands: bands)
            let result = try ProcessorFixture.run(Circle(), image)
            #expect(result.size == PixelSize(width: side, height: side))
            #expect(result.hasAlpha)
            #expect(result.bands == (bands <= 2 ? 2 : 4))
        }
    }

    @Test func aCircleIsOfTheMiddle() throws {
        let result = try ProcessorFixture.run(Circle(), ProcessorFixture.map(101, 51))
        #expect(result.pixel(25, 25) == [50, 25, 0, 255])
        for (x, y) in [(0, 0), (50, 0), (0, 50), (50, 50), (5, 5)] { #expect(result.pixel(x, y)[3] == 0) }
        for (x, y) in [(25, 0), (0, 25), (50, 25), (25, 50)] { #expect(result.pixel(x, y)[3] > 240) }
    }

    @Test func aBorderRunsAlongTheEdge() throws {
        let border = ImageProcessingOptions.Border(color: Color(red: 255, green: 0, blue: 0), width: 4)
        for bands in 1...4 {
            let image = try ProcessorFixture.picture(41, 41, bands: bands) { _, _ in
                [[100], [100, 255], [0, 0, 100], [0, 0, 100, 255]][bands - 1]
            }
            let result = try ProcessorFixture.run(Circle(border: border), image)
            let inner: [UInt8] = bands <= 2 ? [100, 100, 100, 255] : [0, 0, 100, 255]
            #expect(result.bands == 4)
            #expect(near(result.pixel(20, 20), inner))
            #expect(near(result.pixel(2, 20), [255, 0, 0, 255]))
            #expect(near(result.pixel(20, 38), [255, 0, 0, 255]))
            #expect(near(result.pixel(6, 20), inner))
            #expect(result.pixel(0, 0)[3] == 0)
        }
    }

    @Test func aGrayBorderLeavesGrayImagesGray() throws {
        let border = ImageProcessingOptions.Border(color: .white, width: 2)
        let result = try ProcessorFixture.run(
            RoundedCorners(radius: 0, border: border),
            ProcessorFixture.plain(20, 10, [50])
        )
        #expect(result.bands == 2)
        #expect(result.pixel(0, 0) == [255, 255])
        #expect(near(result.pixel(10, 5), [50, 255], by: 1))
    }

    @Test func cornersAreCutAndTheSizeStays() throws {
        let image = try ProcessorFixture.plain(40, 30, [10, 20, 30])
        let result = try ProcessorFixture.run(RoundedCorners(radius: 10), image)
        #expect(result.size == image.size)
        for (x, y) in [(0, 0), (39, 0), (0, 29), (39, 29)] { #expect(result.pixel(x, y)[3] == 0) }
        for (x, y) in [(10, 0), (29, 0), (0, 10), (39, 19), (20, 15), (3, 3)] {
            #expect(result.pixel(x, y) == [10, 20, 30, 255])
        }
        #expect((1...254).contains(result.pixel(3, 2)[3]))
    }

    @Test func transparentPixelsStayTransparent() throws {
        let image = try ProcessorFixture.plain(40, 30, [10, 20, 30, 128])
        let result = try ProcessorFixture.run(RoundedCorners(radius: 10), image)
        #expect(result.pixel(20, 15) == [10, 20, 30, 128])
        #expect(result.pixel(0, 0)[3] == 0)
    }

    @Test func anyRadiusFits() throws {
        let image = try ProcessorFixture.plain(40, 30, [10, 20, 30])
        let square = try ProcessorFixture.run(RoundedCorners(radius: 0), image)
        #expect(square.bands == 4)
        #expect(square.pixel(0, 0) == [10, 20, 30, 255])
        let most = try ProcessorFixture.run(RoundedCorners(radius: 15), image)
        #expect(try ProcessorFixture.run(RoundedCorners(radius: 1e9), image).pixels() == most.pixels())
        #expect(
            try ProcessorFixture.run(RoundedCorners(radius: 5, unit: .points(scale: 3)), image).pixels()
                == most.pixels()
        )
        let dot = try ProcessorFixture.plain(1, 1, [7])
        #expect(try ProcessorFixture.run(RoundedCorners(radius: 5), dot).pixel(0, 0) == [7, 255])
    }

    @Test func anInvalidLengthIsRefused() throws {
        let image = try ProcessorFixture.map(8, 8)
        for length in [Double.nan, .infinity, -1] {
            let border = ImageProcessingOptions.Border(color: .black, width: length)
            #expect(try ProcessorFixture.failure(RoundedCorners(radius: length), image) == .processingFailed)
            #expect(try ProcessorFixture.failure(RoundedCorners(radius: 1, border: border), image) == .processingFailed)
            #expect(try ProcessorFixture.failure(Circle(border: border), image) == .processingFailed)
        }
    }

    @Test(arguments: [(40, 30, 10.0), (41, 31, 15.5), (100, 7, 3), (9, 9, 0)])
    func aShapeHasItsArea(_ width: Int, _ height: Int, _ radius: Double) {
        let mask = RoundedRectangle(size: PixelSize(width: width, height: height), radius: radius).coverage()
        let area = mask.reduce(0.0) { $0 + Double($1) / 255 }
        let exact = Double(width * height) - (4 - Double.pi) * radius * radius
        #expect(abs(area - exact) < 0.02 * exact, "\(area) of \(exact)")
    }
}
