import Foundation
import MegatonPipeline
import Testing

@Suite(.timeLimit(.minutes(2))) struct ResizeTests {
    private typealias Resize = ImageProcessors.Resize

    private func size(_ processor: Resize, _ width: Int, _ height: Int, bands: Int = 3) throws -> PixelSize {
        let image = try ProcessorFixture.scene(width, height, bands: bands)
        let result = try ProcessorFixture.run(processor, image)
        #expect(result.bands == bands)
        return result.size
    }

    @Test(arguments: [
        // source, target, expected size
        (640, 480, 400, 400, 533, 400), (480, 640, 400, 400, 400, 533), (640, 480, 960, 960, 640, 480),
        (640, 480, 640, 480, 640, 480), (101, 33, 50, 50, 101, 33), (101, 99, 50, 50, 51, 50), (1, 1, 10, 10, 1, 1),
        (1, 200, 1, 1, 1, 200), (640, 480, 333, 200, 333, 250),
    ])
    func fills(_ width: Int, _ height: Int, _ toWidth: Int, _ toHeight: Int, _ outWidth: Int, _ outHeight: Int) throws {
        let resize = Resize(size: CGSize(width: toWidth, height: toHeight))
        #expect(try size(resize, width, height) == PixelSize(width: outWidth, height: outHeight))
    }

    @Test(arguments: [
        (640, 480, 400, 400, 400, 300), (480, 640, 400, 400, 300, 400), (640, 480, 960, 960, 640, 480),
        (101, 33, 50, 50, 50, 16), (1000, 1, 100, 100, 100, 1), (1, 1000, 100, 100, 1, 100), (1, 1, 9, 9, 1, 1),
        (640, 480, 333, 333, 333, 250),
    ])
    func fits(_ width: Int, _ height: Int, _ toWidth: Int, _ toHeight: Int, _ outWidth: Int, _ outHeight: Int) throws {
        for crop in [false, true] {
            // `crop` only applies to `aspectFill`.
            let resize = Resize(size: CGSize(width: toWidth, height: toHeight), contentMode: .aspectFit, crop: crop)
            #expect(try size(resize, width, height) == PixelSize(width: outWidth, height: outHeight))
        }
    }

    @Test(arguments: [
        (640, 480, 400, 400, 400, 400), (640, 480, 100, 400, 100, 400), (640, 480, 960, 960, 480, 480),
        (640, 480, 1000, 200, 640, 128), (640, 480, 640, 480, 640, 480), (101, 51, 33, 17, 33, 17),
        (1, 1000, 10, 10, 1, 1), (1000, 1, 10, 1, 10, 1), (1, 1, 400, 400, 1, 1),
        (640, 480, 1000, 337, 640, 216),
    ])
    func crops(_ width: Int, _ height: Int, _ toWidth: Int, _ toHeight: Int, _ outWidth: Int, _ outHeight: Int) throws {
        let resize = Resize(size: CGSize(width: toWidth, height: toHeight), crop: true)
        #expect(try size(resize, width, height) == PixelSize(width: outWidth, height: outHeight))
    }

    @Test func enlargesWhenAsked() throws {
        let square = CGSize(width: 96, height: 96)
        #expect(try size(Resize(size: square, upscale: true), 64, 48) == PixelSize(width: 128, height: 96))
        #expect(
            try size(Resize(size: square, contentMode: .aspectFit, upscale: true), 64, 48)
                == PixelSize(width: 96, height: 72)
        )
        #expect(try size(Resize(size: square, crop: true, upscale: true), 64, 48) == PixelSize(width: 96, height: 96))
        #expect(try size(Resize(width: 96, upscale: true), 64, 48) == PixelSize(width: 96, height: 72))
        #expect(try size(Resize(size: square, upscale: true), 1, 1) == PixelSize(width: 96, height: 96))
    }

    @Test func oneSideDecides() throws {
        #expect(try size(Resize(width: 320), 640, 480) == PixelSize(width: 320, height: 240))
        #expect(try size(Resize(height: 120), 640, 480) == PixelSize(width: 160, height: 120))
        #expect(try size(Resize(width: 1280), 640, 480) == PixelSize(width: 640, height: 480))
        #expect(
            try size(Resize(width: 160, unit: .points(scale: 2)), 640, 480) == PixelSize(width: 320, height: 240)
        )
    }

    @Test(arguments: 1...4) func everyNumberOfBands(_ bands: Int) throws {
        let resize = Resize(size: CGSize(width: 20, height: 20), crop: true)
        #expect(try size(resize, 64, 48, bands: bands) == PixelSize(width: 20, height: 20))
        #expect(try size(Resize(width: 100, upscale: true), 33, 7, bands: bands) == PixelSize(width: 100, height: 21))
    }

    @Test func anImageThatNeedNotChangeStaysTheSame() throws {
        let image = try ProcessorFixture.map(64, 48)
        #expect(try ProcessorFixture.run(Resize(width: 64), image) === image)
        #expect(try ProcessorFixture.run(Resize(size: CGSize(width: 64, height: 48), crop: true), image) === image)
        #expect(try ProcessorFixture.run(Resize(size: CGSize(width: 900, height: 900)), image) === image)
    }

    @Test func theMiddleIsCutOut() throws {
        let stripes = try ProcessorFixture.picture(300, 100) { x, _ in
            [[255, 0, 0], [0, 255, 0], [0, 0, 255]][x / 100]
        }
        let large = try ProcessorFixture.run(Resize(size: CGSize(width: 100, height: 100), crop: true), stripes)
        let small = try ProcessorFixture.run(Resize(size: CGSize(width: 10, height: 10), crop: true), stripes)
        let tooSmall = try ProcessorFixture.run(Resize(size: CGSize(width: 500, height: 500), crop: true), stripes)
        #expect(tooSmall.size == PixelSize(width: 100, height: 100))
        for image in [large, small, tooSmall] {
            let last = image.size.width - 1
            #expect(near(image.pixel(0, 0), [0, 255, 0]))
            #expect(near(image.pixel(last, last), [0, 255, 0]))
        }
    }

    @Test func coloursBehindTransparencyDoNotShow() throws {
        let image = try ProcessorFixture.picture(64, 64, bands: 4) { x, _ in
            x % 2 == 0 ? [255, 255, 255, 255] : [255, 0, 0, 0]
        }
        let result = try ProcessorFixture.run(Resize(width: 16), image)
        let pixel = result.pixel(8, 8)
        #expect(near(Array(pixel[..<3]), [255, 255, 255], by: 3), "\(pixel)")
        #expect(near([pixel[3]], [128], by: 6), "\(pixel)")
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, 0, -0.0, -5])
    func aSideThatIsNoneIsRefused(_ side: Double) throws {
        let image = try ProcessorFixture.map(8, 8)
        for upscale in [false, true] {
            for crop in [false, true] {
                let size = CGSize(width: side, height: 4)
                let resize = Resize(size: size, crop: crop, upscale: upscale)
                #expect(try ProcessorFixture.failure(resize, image) == .processingFailed)
            }
            #expect(try ProcessorFixture.failure(Resize(width: side, upscale: upscale), image) == .processingFailed)
            #expect(try ProcessorFixture.failure(Resize(height: side, upscale: upscale), image) == .processingFailed)
        }
    }

    @Test func aTooLargeResultIsRefused() throws {
        let image = try ProcessorFixture.map(8, 8)
        for (width, height) in [(8193.0, 8.0), (8000, 8000), (1e300, 1e300), (1e300, 1)] {
            let size = CGSize(width: width, height: height)
            #expect(try ProcessorFixture.failure(Resize(size: size, upscale: true), image) == .outputTooLarge)
            #expect(
                try ProcessorFixture.failure(Resize(size: size, crop: true, upscale: true), image) == .outputTooLarge
            )
            // Nothing is enlarged, so no result is too large.
            #expect(try ProcessorFixture.failure(Resize(size: size), image) == nil)
        }
        #expect(try ProcessorFixture.failure(Resize(width: 8193, upscale: true), image) == .outputTooLarge)
        // Far from the target aspect ratio, without a huge intermediate image.
        let line = try ProcessorFixture.plain(4000, 1, [9, 9, 9])
        let strip = Resize(size: CGSize(width: 100, height: 100), crop: true, upscale: true)
        #expect(try ProcessorFixture.run(strip, line).size == PixelSize(width: 100, height: 100))
    }
}
