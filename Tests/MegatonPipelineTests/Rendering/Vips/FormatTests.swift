import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Reading and writing beyond the still images that are enabled by default: opt-in formats, animations, profiles.
@Suite(.timeLimit(.minutes(2))) struct FormatTests {
    private func render(
        _ renditions: [Rendition],
        _ data: Data,
        limits: RenderLimits = RenderLimits(),
        types: Set<AssetType> = AssetType.supported
    ) async throws -> [EncodedImage] {
        let renderer = Renderer(
            engine: VipsEngine(),
            limits: limits,
            types: types,
            threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread),
            budget: MemoryBudget(bytes: 1 << 30)
        )
        return try await renderer.render(renditions, from: data, context: "test")
    }

    private func isRefused(
        _ code: ImagePipeline.Error.Code,
        _ words: String = "",
        _ body: () async throws -> Void
    ) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            let error = error as? ImagePipeline.Error
            return error?.code == code && (words.isEmpty || error?.message.contains(words) == true)
        }
    }

    /// Fault: valid files of kinds that no decoder reads were reported as corrupt.
    @Test(arguments: [
        ("tiff2vips: subsampled images not supported", ImagePipeline.Error.Code.unsupportedFormat),
        ("VipsJpeg: Unsupported JPEG process: SOF type 0xc3", .unsupportedFormat),
        ("VipsJpeg: Premature end of input file", .corruptImage), ("no details", .corruptImage),
    ])
    func kindsThatNoDecoderReadsAreNotCorrupt(_ reason: String, _ code: ImagePipeline.Error.Code) {
        let error = VipsError(reason).asDecodingError()
        #expect(error.code == code && error.message == "the image cannot be decoded: \(reason).")
    }

    // MARK: - Opt-in formats

    @Test func switchedOnFormatsAreReadWhereTheTypesHaveThemToo() async throws {
        try VipsRuntime.allow([.svg, .tiff, .jxl])
        #expect(VipsRuntime.allowed.isSuperset(of: [.svg, .tiff, .jxl, .jpeg]))
        let svg = Data(
            """
            <svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">\
            <rect width="20" height="20" fill="#ff0000"/></svg>
            """.utf8
        )
        let png = Rendition(width: 20, format: .png)
        #expect(await isRefused(.unsupportedFormat, "svg") { _ = try await render([png], svg) })
        let small = try await render([png], svg, types: [.svg])[0]
        #expect(small.size == PixelSize(width: 20, height: 10))
        #expect(try PixelReader(small.data).pixel(2, 5) == [255, 0, 0, 255])
        #expect(try PixelReader(small.data).pixel(15, 5)[3] == 0)
        // Drawn at the larger size rather than enlarged: the edge is sharp.
        let large = try await render([Rendition(width: 400, format: .png, enlarge: true)], svg, types: [.svg])[0]
        #expect(large.size == PixelSize(width: 400, height: 200))
        #expect(try PixelReader(large.data).pixel(198, 100) == [255, 0, 0, 255])
        #expect(try PixelReader(large.data).pixel(201, 100)[3] == 0)
        let jxl = try #require(ImageEncoders.Vips(format: .jxl).encode(TestPicture.gradient(40, 20)))
        #expect(try await render([png], jxl, types: [.jxl])[0].size == PixelSize(width: 20, height: 10))
        #expect(await isRefused(.unsupportedFormat, "jxl") { _ = try await render([png], jxl) })
    }

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS")) func readsTIFF() async throws {
        try VipsRuntime.allow([.tiff])
        for name in ["libvips/sample.tif", "libvips/1bit.tif", "sharp/8bit_depth.tiff", "sharp/fogra-0-100-100-0.tif"] {
            let data = try Corpus.data("edge/\(name)")
            let image = try await render([Rendition(width: 16, height: 16)], data, types: [.tiff])[0]
            #expect(max(image.size.width, image.size.height) <= 16, "\(name)")
        }
    }

    /// Resources that an SVG refers to are neither fetched nor read.
    @Test func anSVGSeesNothingButItself() async throws {
        try VipsRuntime.allow([.svg])
        let directory = try TestDirectory()
        let red = try #require(ImageEncoders.Vips(format: .png).encode(TestPicture.plain(20, 20, [255, 0, 0])))
        let path = try directory.write(red, to: "red.png")
        let svg = Data(
            """
            <svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="20" height="20">\
            <image xlink:href="file://\(path)" width="20" height="20"/></svg>
            """.utf8
        )
        let image = try await render([Rendition(width: 20, format: .png)], svg, types: [.svg])[0]
        #expect(try PixelReader(image.data).pixel(10, 10)[3] == 0)
    }

    @Test func onlySomeCanBeSwitchedOn() throws {
        #expect { try VipsRuntime.allow([.pdf]) } throws: { "\($0)".contains("pdf cannot be enabled") }
        try VipsRuntime.allow([.jpeg, .png])
        let off = Data([0xFF, 0x0A])
        #expect { try Set([AssetType.jxl]).sniff(off, allowed: AssetType.supported) } throws: {
            "\($0)".contains("VipsRuntime.allow([.jxl])")
        }
        #expect { try Set([AssetType.jpeg]).sniff(off, allowed: AssetType.supported) } throws: {
            "\($0)".contains("jxl needs VipsRuntime.allow([.jxl]).")
        }
    }

    /// Fault: libvips passed these to ImageMagick's loader, which is blocked, and the message was about that.
    @Test func anAVIFSequenceIsRefusedWithTheReason() async throws {
        let data = Data([0, 0, 0, 20]) + Data("ftypavis\0\0\0\0avif".utf8) + Data(count: 100)
        #expect(
            await isRefused(.unsupportedFormat, "image sequence") { _ = try await render([Rendition(width: 5)], data) }
        )
        #expect { try ImageDecoders.Default().decode(data) } throws: { "\($0)".contains("image sequence") }
    }

    // MARK: - Animations

    @Test(arguments: [Rendition.Format.gif, .webp], [Rendition.Format.gif, .webp])
    func framesAreKeptWhenAskedFor(_ input: Rendition.Format, _ output: Rendition.Format) async throws {
        let data = try TestPicture.animation(40, 20, frames: 5, as: input)
        let wanted = [
            Rendition(name: "inside", width: 20, format: output, animated: true),
            Rendition(name: "cover", width: 10, height: 10, fit: .cover, format: output, animated: true),
            Rendition(name: "contain", width: 20, height: 20, fit: .contain, format: output, animated: true),
            Rendition(name: "still", width: 20, format: output), Rendition(name: "jpeg", width: 20),
            Rendition(
                name: "attention",
                width: 10,
                height: 10,
                fit: .cover,
                format: output,
                gravity: .attention,
                animated: true
            ),
        ]
        let images = try await render(wanted, data)
        #expect(images.map(\.size.width) == [20, 10, 20, 20, 20, 10])
        #expect(images.map(\.size.height) == [10, 10, 20, 10, 10, 10])
        for (rendition, image) in zip(wanted, images) {
            let probe = try VipsEngine().probe(image.data, type: #require(AssetType(image.data)))
            #expect(probe.frames == (rendition.animated ? 5 : 1), "\(rendition.name)")
            guard rendition.animated else { continue }
            let timing = try TestPicture.timing(image.data)
            #expect(timing.loop == 3 && timing.delays == [50, 50, 50, 50, 50], "\(rendition.name)")
            let frames = try PixelReader(image.data, options: "n=-1")
            for frame in 0..<5 {
                let grey = Int(frames.pixel(image.size.width / 2, frame * image.size.height + image.size.height / 2)[0])
                #expect(abs(grey - frame * 10) <= 4, "\(rendition.name) \(frame): \(grey)")
            }
        }
    }

    // Fault: frames were scaled as one stack, so that each had a bit of its neighbors in its first and last rows.
    @Test(arguments: [Rendition.Format.gif, .webp])
    func framesDoNotMix(_ input: Rendition.Format) async throws {
        // Black and white in turns.
        let data = try TestPicture.animation(100, 30, frames: 6, step: 255, as: input)
        var wanted = [
            Rendition(name: "small", width: 30, format: .webp, lossless: true, animated: true),
            Rendition(name: "flat", width: 100, height: 11, fit: .fill, format: .webp, lossless: true, animated: true),
            Rendition(name: "large", width: 230, format: .webp, enlarge: true, lossless: true, animated: true),
            Rendition(name: "linear", width: 30, format: .webp, lossless: true, animated: true),
        ]
        wanted[3].linear = true
        for renditions in [[wanted[0]], [wanted[1]], [wanted[2]], wanted] {
            for (rendition, image) in zip(renditions, try await render(renditions, data)) {
                let frames = try PixelReader(image.data, options: "n=-1")
                #expect(frames.height == 6 * image.size.height, "\(rendition.name)")
                for row in 0..<frames.height {
                    let grey = Int(frames.pixel(image.size.width / 2, row)[0])
                    let wrong = abs(grey - row / image.size.height * 255 % 256)
                    #expect(wrong <= 2, "\(rendition.name), row \(row): \(grey)")
                }
            }
        }
    }

    // Fault: the stack of frames was turned as one image, and became a still filmstrip.
    @Test(arguments: [3, 6] as [UInt8])
    func framesOfATurnedAnimationAreTurned(_ orientation: UInt8) async throws {
        let data = TestPicture.turned(
            try TestPicture.animation(40, 20, frames: 5, step: 50, as: .webp),
            orientation: orientation
        )
        let wanted = [
            Rendition(name: "same", width: 100, format: .webp, lossless: true, animated: true),
            Rendition(name: "half", width: orientation == 6 ? 10 : 20, format: .webp, lossless: true, animated: true),
        ]
        for (rendition, image) in zip(wanted, try await render(wanted, data)) {
            let part = rendition.name == "same" ? 1 : 2
            let size = orientation == 6 ? PixelSize(width: 20, height: 40) : PixelSize(width: 40, height: 20)
            #expect(image.size == PixelSize(width: size.width / part, height: size.height / part))
            let frames = try PixelReader(image.data, options: "n=-1")
            #expect(frames.height == 5 * image.size.height, "\(rendition.name)")
            for frame in 0..<5 {
                let grey = Int(frames.pixel(5, frame * image.size.height)[0])
                #expect(abs(grey - frame * 50) <= 2, "\(rendition.name) \(frame): \(grey)")
            }
        }
    }

    /// Limits for one frame and for all frames together: at the limits, and just over them.
    @Test func framesHaveLimits() async throws {
        let animated = Rendition(width: 2, format: .gif, animated: true)
        let most = try TestPicture.animation(4, 4, frames: 256, as: .webp)
        #expect(try await render([animated], most).count == 1)
        let more = try TestPicture.animation(4, 4, frames: 257, as: .webp)
        #expect(await isRefused(.tooManyFrames) { _ = try await render([animated], more) })
        #expect(try await render([Rendition(width: 2, format: .gif)], more).count == 1, "one frame is read")
        let data = try TestPicture.animation(10, 10, frames: 5, as: .gif)
        var limits = RenderLimits()
        limits.pixels = 500
        #expect(try await render([animated], data, limits: limits).count == 1)
        limits.pixels = 499
        #expect(await isRefused(.imageTooLarge) { _ = try await render([animated], data, limits: limits) })
        #expect(try await render([Rendition(width: 2, format: .gif)], data, limits: limits).count == 1)
    }

    @Test func aStillImageHasNoFramesToKeep() async throws {
        let data = TestImage.quarters(width: 20, height: 10)
        let image = try await render([Rendition(width: 10, format: .gif, animated: true)], data)[0]
        #expect(image.size == PixelSize(width: 10, height: 5) && AssetType(image.data) == .gif)
    }

    // MARK: - Profiles

    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func aProfileIsKeptWhenAskedForAndUsedElse() async throws {
        let data = try Corpus.data("edge/nuke/image-p3.jpg")
        try VipsRuntime.allow([.jxl])
        let types = AssetType.supported.union([.jxl])
        for format in [Rendition.Format.jpeg, .png, .webp, .avif, .jxl] {
            let images = try await render(
                [
                    Rendition(name: "keep", width: 64, format: format, profile: .keep),
                    Rendition(name: "srgb", width: 64, format: format),
                ],
                data
            )
            #expect(try TestPicture.fields(of: images[0].data).contains("icc-profile-data"), "\(format)")
            // The JPEG XL decoder always reports a profile, also for sRGB.
            let plain = try TestPicture.fields(of: images[1].data)
            #expect(format == .jxl || !plain.contains("icc-profile-data"), "\(format)")
            // With their profiles applied, both look the same.
            let shown = try await render([Rendition(width: 64, format: .png)], images[0].data, types: types)[0]
            let other = try await render([Rendition(width: 64, format: .png)], images[1].data, types: types)[0]
            let distance = try PixelReader(shown.data).distance(to: PixelReader(other.data))
            #expect(distance < 4, "\(format) \(distance)")
            let alone = try await render([Rendition(name: "x", width: 64, format: format, profile: .keep)], data)[0]
            #expect(alone.data == images[0].data)
        }
        let ink = try Corpus.data("edge/sharp/Channel_digital_image_CMYK_color.jpg")
        let image = try await render([Rendition(width: 64, profile: .keep)], ink)[0]
        #expect(try !TestPicture.fields(of: image.data).contains("icc-profile-data"), "CMYK becomes sRGB all the same")
    }

    /// Fault: each had a block of 194 bytes with the resolution of the source.
    @Test func aWebPImageHasNoMetadataOfItsOwn() throws {
        for rendition in [Rendition(width: 40, format: .webp), Rendition(width: 40, format: .webp, profile: .keep)] {
            let data = TestJPEG.inserting(
                TestJPEG.profile(Data(ProfileFitTests.sized(TestProfile.p3))),
                into: try TestPicture.jpeg(80, 60)
            )
            let image = try DamageTests.render(data, rendition, .vips)
            #expect(image.data.range(of: Data("EXIF".utf8)) == nil)
            let size = image.data.dropFirst(4).prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            #expect(size == image.data.count - 8)
            #expect(try PixelReader(image.data).width == 40)
            let hasProfile = try TestPicture.fields(of: image.data).contains("icc-profile-data")
            #expect(hasProfile == (rendition.profile == .keep))
        }
    }
}
