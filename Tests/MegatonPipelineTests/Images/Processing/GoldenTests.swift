import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Compares the output of processors with results that a person has looked at. `scripts/record-hashes` records them
/// anew.
///
/// Serialized, as the tests write one file when they record.
@Suite(.serialized, .timeLimit(.minutes(5))) struct GoldenTests {
    private static let red = Color(red: 220, green: 30, blue: 40)

    private func processors() throws -> [(String, any ImageProcessing)] {
        let part = PixelSize(width: 48, height: 40)
        let mark = try ProcessorFixture.picture(12, 12, bands: 4) { x, y in
            (x - 6) * (x - 6) + (y - 6) * (y - 6) < 30 ? [255, 230, 0, 255] : [0, 0, 0, 0]
        }
        let composition: [any ImageProcessing] = [
            .resize(size: CGSize(width: 40, height: 40), crop: true), .gaussianBlur(radius: 2), .circle(),
        ]
        return [
            ("resize-fill", .resize(size: CGSize(width: 40, height: 40))),
            ("resize-fit", .resize(size: CGSize(width: 40, height: 40), contentMode: .aspectFit)),
            ("resize-crop", .resize(size: CGSize(width: 40, height: 30), crop: true)),
            ("resize-upscale", .resize(width: 300, upscale: true)),
            ("circle", .circle()), ("circle-border", .circle(border: .init(color: Self.red, width: 5))),
            ("rounded-corners", .roundedCorners(radius: 12)),
            ("rounded-corners-border", .roundedCorners(radius: 12, border: .init(color: .white, width: 3))),
            ("gaussian-blur", .gaussianBlur()), ("composition", ImageProcessors.Composition(composition)),
            ("crop-centre", .crop(size: part)), ("crop-attention", .crop(size: part, gravity: .attention)),
            ("crop-entropy", .crop(size: part, gravity: .entropy)),
            ("crop-focus", .crop(size: part, focus: .init(x: 0.8, y: 0.3))),
            ("pad", .pad(size: PixelSize(width: 250, height: 250), gravity: .northEast)),
            ("pad-colour", .pad(size: PixelSize(width: 250, height: 250), background: Self.red)),
            ("rotate-90", .rotate(degrees: 90)), ("rotate-30", .rotate(degrees: 30)),
            ("rotate-200-colour", .rotate(degrees: 200, background: Self.red)), ("flip", .flip(.horizontal)),
            ("flip-vertical", .flip(.vertical)), ("sharpen", .sharpen(sigma: 2, flat: 1, jagged: 5)),
            ("flatten", .flatten(background: Self.red)), ("watermark", .watermark(mark, id: "sun")),
            ("watermark-tiled", .watermark(mark, id: "sun", opacity: 0.6, tile: true)),
            ("vips-invert", .vips(name: "invert")),
            ("vips-linear", .vips(name: "linear", arguments: ["a": 1.5, "b": -40])),
            ("vips-rank", .vips(name: "rank", arguments: ["width": 5, "height": 5, "index": 12])),
            ("vips-sobel", .vips(name: "sobel")), ("vips-hist_equal", .vips(name: "hist_equal")),
            ("vips-falsecolour", .vips(name: "falsecolour")),
        ]
    }

    private func check(_ name: String, _ image: PlatformImage) throws {
        let results = try processors().map { processor in
            (name: "\(name)/\(processor.0)", image: try ProcessorFixture.run(processor.1, image))
        }
        try GoldenHashes.check([("\(name)/source", image)] + results)
    }

    /// Discs on a gradient, without any symmetry.
    @Test func opaque() throws {
        try check("synthetic-opaque", ProcessorFixture.picture(120, 81) { x, y in Self.scene(x, y) })
    }

    @Test func transparent() throws {
        try check(
            "synthetic-transparent",
            ProcessorFixture.picture(61, 90, bands: 4) { x, y in
                Self.scene(x, y) + [UInt8(max(0, 255 - x * 3 - (y > 60 ? 120 : 0)))]
            }
        )
    }

    @Test func grey() throws {
        try check(
            "synthetic-grey",
            ProcessorFixture.picture(75, 75, bands: 1) { x, y in [Self.scene(x, y)[1] / 2 + UInt8(x)] }
        )
    }

    @Test(.enabled(if: Corpus.isThere), arguments: ["p001", "p017"]) func photo(_ name: String) throws {
        let decoder = ImageDecoders.Default(thumbnail: .init(maxPixelSize: 200))
        try check("photo-\(name)", decoder.decode(Corpus.data("photos/\(name).jpg")).image)
    }

    private static func scene(_ x: Int, _ y: Int) -> [UInt8] {
        func disc(_ centreX: Int, _ centreY: Int, _ radius: Int) -> Bool {
            (x - centreX) * (x - centreX) + (y - centreY) * (y - centreY) < radius * radius
        }
        if disc(20, 25, 14) { return [250, 210, 30] }
        if disc(48, 55, 20) { return (x / 4 + y / 4) % 2 == 0 ? [30, 60, 200] : [240, 240, 250] }
        if disc(95, 30, 11) { return [200, 20, 60] }
        return [UInt8(x * 2), UInt8(min(255, y * 2 + x / 2)), UInt8(255 - y * 2)]
    }
}

/// The hash detects visible differences, and no others.
@Suite(.timeLimit(.minutes(2))) struct ImageHashTests {
    private func image(_ change: (Int, Int) -> Int = { _, _ in 0 }) throws -> PlatformImage {
        try ProcessorFixture.picture(90, 60) { x, y in
            let base = (x * y) % 140 / 2 + (x > 40 ? 90 : 0) + (y > 33 ? 40 : 0)
            let value = UInt8(min(255, max(0, base + change(x, y))))
            return [value, value / 2, 255 - value]
        }
    }

    @Test func smallDifferencesAreNone() throws {
        let hash = try ImageHash(image())
        #expect(hash.looksLike(try ImageHash(image { x, y in (x + y) % 2 })))
        #expect(hash.looksLike(try ImageHash(image { x, y in (x * 7 + y * 3) % 5 - 2 })))
        #expect(ImageHash(hash.description) == hash)
    }

    @Test func otherImagesAreOthers() throws {
        let image = try image()
        let hash = ImageHash(image)
        let others: [any ImageProcessing] = [
            .flip(.horizontal), .flip(.vertical), .rotate(degrees: 180), .vips(name: "invert"),
            .vips(name: "linear", arguments: ["a": 1, "b": 12]), .crop(size: PixelSize(width: 89, height: 60)),
            .roundedCorners(radius: 25), .vips(name: "wrap", arguments: ["x": 9]),
        ]
        for other in others {
            let result = try ProcessorFixture.run(other, image)
            #expect(!hash.looksLike(ImageHash(result)), "\(other.identifier) \(hash) \(ImageHash(result))")
        }
        #expect(ImageHash("") == nil)
        #expect(ImageHash("1x1 0,0,0 0 0") == nil)
    }
}
