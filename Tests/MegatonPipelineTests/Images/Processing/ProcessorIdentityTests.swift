import Foundation
import MegatonPipeline
import Synchronization
import Testing

/// Identifiers of every processor, equal and not equal: no two processors share a key.
@Suite(.timeLimit(.minutes(2))) struct ProcessorIdentityTests {
    /// Processors, each with at least one parameter that differs from all others.
    private func all() throws -> [any ImageProcessing] {
        let size = CGSize(width: 10, height: 20)
        let pixels = PixelSize(width: 10, height: 20)
        let red = Color(red: 255, green: 0, blue: 0)
        let border = ImageProcessingOptions.Border(color: red, width: 2)
        let mark = try ProcessorFixture.map(2, 2)
        return resizes(size) + [
            .circle(), .circle(border: border), .circle(border: .init(color: red, width: 3)),
            .circle(border: .init(color: .black, width: 2)), .roundedCorners(radius: 1), .roundedCorners(radius: 1.5),
            .roundedCorners(radius: 1, border: border), .gaussianBlur(), .gaussianBlur(radius: 9),
            .process(id: "a") { $0 }, .process(id: "b") { $0 }, .process(id: "megaton/circle?border=none") { $0 },
            .crop(size: pixels), .crop(size: pixels, gravity: .attention), .crop(size: pixels, gravity: .entropy),
            .crop(size: PixelSize(width: 1, height: 0)), .crop(size: pixels, focus: .init(x: 0.1, y: 0.2)),
            .crop(size: pixels, focus: .init(x: 0.2, y: 0.1)), .pad(size: pixels), .pad(size: pixels, gravity: .west),
            .pad(size: pixels, background: red), .rotate(degrees: 90), .rotate(degrees: 91),
            .rotate(degrees: 91, background: red), .flip(.horizontal), .flip(.vertical), .flip(.both), .sharpen(),
            .trim(), .trim(tolerance: 0), .grayscale(), .sharpen(sigma: 1), .sharpen(flat: 1), .sharpen(jagged: 1),
            .flatten(), .flatten(background: red),
            .watermark(mark), .watermark(mark, id: "a"), .watermark(mark, id: "a", gravity: .west),
            .watermark(mark, id: "a", opacity: 0.5), .watermark(mark, id: "a", tile: true),
            .watermark(Rendition.Watermark(.text("a"))), .watermark(Rendition.Watermark(.text("a"), margin: 1)),
            .watermark(Rendition.Watermark(.image("a.png")), overlay: mark), .pad(Rendition.Padding(1)),
            .pad(Rendition.Padding(top: 1, right: 1, bottom: 1, left: 2)),
            .vips(name: "invert"), .vips(name: "gamma"), .vips(name: "gamma", arguments: ["exponent": 2.0]),
            .vips(name: "gamma", arguments: ["exponent": 2]), .vips(name: "gamma", arguments: ["exponent": [2]]),
            .vips(name: "gamma", arguments: ["exponent": "2"]), .vips(name: "gamma", arguments: ["exponent": true]),
        ]
    }

    private func resizes(_ size: CGSize) -> [any ImageProcessing] {
        [
            .resize(size: size), .resize(size: size, contentMode: .aspectFit), .resize(size: size, crop: true),
            .resize(size: size, upscale: true), .resize(size: CGSize(width: 20, height: 10)), .resize(width: 10),
            .resize(height: 10), .resize(width: 10, upscale: true), .resize(width: 10.5),
            .resize(size: size, unit: .points(scale: 2)),
        ]
    }

    @Test func noTwoShareAName() throws {
        let (all, again) = (try all(), try all())
        #expect(Set(all.map(\.identifier)).count == all.count)
        #expect(Set(all.map(\.hashableIdentifier)).count == all.count)
        #expect(all.map(\.identifier) == again.map(\.identifier))
        #expect(all.map(\.hashableIdentifier) == again.map(\.hashableIdentifier))
    }

    @Test func namesStayWhatTheyAre() {
        // Identifiers are part of keys in caches that outlive the process.
        #expect(
            ImageProcessors.Resize(width: 320).identifier
                == "megaton/resize?s=320.0x9999.0,cm=aspectFit,crop=false,upscale=false"
        )
        #expect(ImageProcessors.Circle().identifier == "megaton/circle?border=none")
        #expect(ImageProcessors.GaussianBlur().identifier == "megaton/gaussian_blur?radius=8")
        #expect(
            ImageProcessors.Composition([.circle(), .gaussianBlur(radius: 8)]).identifier
                == "megaton/composition?26:megaton/circle?border=none,30:megaton/gaussian_blur?radius=8"
        )
    }

    @Test func lengthsInPointsArePixels() {
        #expect(ImageProcessors.Resize(width: 160, unit: .points(scale: 2)) == ImageProcessors.Resize(width: 320))
        #expect(
            ImageProcessingOptions.Border(color: .black, width: 2, unit: .points(scale: 3))
                == ImageProcessingOptions.Border(color: .black, width: 6)
        )
    }

    // The order of processors is part of the identifier.
    @Test func aCompositionIsItsPartsInOrder() {
        let blur: any ImageProcessing = .gaussianBlur(radius: 2)
        let circle: any ImageProcessing = .circle()
        let one = ImageProcessors.Composition([blur, circle])
        #expect(one == ImageProcessors.Composition([blur, circle]))
        #expect(one.hashValue == ImageProcessors.Composition([blur, circle]).hashValue)
        #expect(one != ImageProcessors.Composition([circle, blur]))
        #expect(one.identifier != ImageProcessors.Composition([circle, blur]).identifier)
        #expect(one != ImageProcessors.Composition([blur]))
        let nested = ImageProcessors.Composition([ImageProcessors.Composition([blur]), circle])
        #expect(nested == one)
        #expect(nested.identifier == one.identifier)
    }

    // A joined identifier never equals another one.
    @Test func noIDCanFeignAnother() {
        func composition(_ ids: String...) -> String {
            ImageProcessors.Composition(ids.map { id in ImageProcessors.Anonymous(id: id) { $0 } }).identifier
        }
        let names = [
            composition("a", "b"), composition("ab"), composition("a,b"), composition("a", "", "b"),
            composition("a,26:megaton/anonymous?id=1:b"), composition("b", "a"), composition(),
        ]
        #expect(Set(names).count == names.count)
        let operations: [[String: ImageProcessors.VipsOperation.Argument]] = [
            ["a": "b", "c": "d"], ["a": "b;c=name:d"], ["a=name:b;c": "d"], ["a": "b;8:c=name:d"], [:],
        ]
        let calls = operations.map { ImageProcessors.VipsOperation(name: "invert", arguments: $0).identifier }
        #expect(Set(calls).count == calls.count)
    }
}

@Suite(.timeLimit(.minutes(2))) struct CompositionTests {
    private typealias Composition = ImageProcessors.Composition

    @Test func runsInOrder() throws {
        let image = try ProcessorFixture.map(10, 4)
        let crop: any ImageProcessing = .crop(size: PixelSize(width: 2, height: 4), gravity: .west)
        let flip: any ImageProcessing = .flip(.horizontal)
        #expect(try ProcessorFixture.run(Composition([crop, flip]), image).pixel(0, 0) == [1, 0, 0])
        #expect(try ProcessorFixture.run(Composition([flip, crop]), image).pixel(0, 0) == [9, 0, 0])
        #expect(Composition([flip, crop]).process(image)?.pixel(0, 0) == [9, 0, 0])
        #expect(try ProcessorFixture.run(Composition([]), image) === image)
    }

    @Test func theFirstFailureEndsIt() throws {
        let image = try ProcessorFixture.map(4, 4)
        let counter = Calls()
        let composition = Composition([
            .process(id: "works") { counter.add($0) }, .process(id: "fails") { _ in nil },
            .process(id: "never") { counter.add($0) },
        ])
        #expect(try ProcessorFixture.failure(composition, image) == .processingFailed)
        // Once with a context, and once without.
        #expect(counter.count == 2)
    }

    @Test func aFailureNamesTheProcessorAndTheReason() throws {
        let image = try ProcessorFixture.map(4, 4)
        do {
            _ = try ProcessorFixture.run(Composition([.circle(), .rotate(degrees: .nan)]), image)
            Issue.record("it did not fail")
        } catch let error as ImagePipeline.Error {
            #expect(error.code == .processingFailed)
            #expect(error.stage == .process)
            #expect(error.message.contains("rotate?degrees=nan"))
            #expect(error.message.contains("must be a number"))
        }
    }

    private final class Calls: Sendable {
        private let number = Mutex(0)

        var count: Int { number.withLock { $0 } }

        func add(_ image: PlatformImage) -> PlatformImage {
            number.withLock { $0 += 1 }
            return image
        }
    }
}
