import Foundation
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Damage is an error or a warning, depending on the rendition's level; in each engine, and whatever the file ends
/// with.
struct DamageTests {
    /// An image of noise, so that each row has its share of the data.
    static func noise(_ width: Int, _ height: Int, _ format: Rendition.Format, progressive: Bool = false) throws -> Data
    {
        var random = SeededGenerator(seed: 11)
        let pixels = Data((0..<(width * height * 3)).map { _ in UInt8.random(in: 0...255, using: &random) })
        let image = try #require(PlatformImage(width: width, height: height, bands: 3, pixels: pixels))
        let rendition = Rendition(format: format, quality: 80, progressive: progressive)
        return try VipsEngine().encode(image, rendition, RenderDeadline(.now + .seconds(60)))
    }

    static func render(
        _ data: Data,
        _ rendition: Rendition,
        _ choice: RenderEngineChoice,
        _ failOn: Rendition.FailOn? = nil
    ) throws(ImagePipeline.Error) -> EncodedImage {
        var rendition = rendition
        rendition.failOn = failOn
        let (engine, limits) = (choice.engine, RenderLimits())
        let plan = try RenderPlan(probing: data, AssetType.supported.sniff(data), [rendition], engine, limits)
        return try engine.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))[0]
    }

    private static let jpegs: [(name: String, data: Result<Data, any Error>)] = [
        ("baseline", Result { try noise(160, 120, .jpeg) }),
        ("progressive", Result { try noise(160, 120, .jpeg, progressive: true) }),
        ("smooth", Result { try TestSampling.s420.jpeg(160, 120) { x, y in (UInt8(x), UInt8(y), 9) } }),
    ]

    private static func code(_ body: () throws(ImagePipeline.Error) -> EncodedImage) -> String {
        do {
            let image = try body()
            return image.notes.isEmpty ? "whole" : "noted"
        } catch {
            return error.code.rawValue
        }
    }

    @Test(arguments: RenderEngineChoice.allCases, [0, 1, 2])
    func aJPEGThatEndsEarlyIsAnErrorWhateverFollows(_ engine: RenderEngineChoice, _ index: Int) throws {
        let data = try Self.jpegs[index].data.get()
        let rendition = Rendition(width: 40)
        for part in [0.35, 0.6, 0.9] {
            let cut = data.prefix(Int(Double(data.count) * part))
            // Not within the tables: a progressive file cut there has no image data yet.
            for end in [Data([0xFF, 0xD9]), Data(), Data([0xFF, 0xD9, 0, 0, 0]), Data(count: 20)] {
                for level in [nil, Rendition.FailOn.truncated, .error, .warning] {
                    let code = Self.code { () throws(ImagePipeline.Error) in
                        try Self.render(cut + end, rendition, engine, level)
                    }
                    #expect(code == "corrupt_image", "\(Self.jpegs[index].name) \(part) \(end.count)")
                }
            }
            let shown = try Self.render(cut + [0xFF, 0xD9], rendition, engine, .nothing)
            #expect(shown.size == PixelSize(width: 40, height: 30))
            #expect(shown.notes.count == 1 && shown.notes[0].contains("premature end"), "\(shown.notes)")
        }
        for level in Rendition.FailOn.allCases {
            let image = try Self.render(data, rendition, engine, level)
            #expect(try image.notes.isEmpty && image.data == Self.render(data, rendition, engine).data)
        }
    }

    /// Cut in the last rows that a decoder reads: libvips 8.14 does not fail there. libvips reads the header of such an
    /// image.
    @Test(arguments: RenderEngineChoice.allCases) func aJPEGThatEndsInItsLastRowsIsAnError(
        _ engine: RenderEngineChoice
    ) throws {
        let data = try Self.noise(1024, 1024, .jpeg)
        for (part, width) in [(0.95, 128), (0.99, 128), (0.995, 256), (0.995, 1000)] {
            let cut = data.prefix(Int(Double(data.count) * part)) + Data([0xFF, 0xD9])
            #expect(throws: ImagePipeline.Error.self, "\(part) \(width)") {
                try Self.render(cut, Rendition(width: width), engine)
            }
            let tolerant = try Self.render(cut, Rendition(width: width), engine, .nothing)
            #expect(!tolerant.notes.isEmpty, "\(part) \(width)")
        }
        #expect(try Self.render(data, Rendition(width: 128), engine).notes.isEmpty)
    }

    /// In the middle of its data, where libjpeg-turbo takes an impossible code for a zero and does not warn.
    @Test(arguments: RenderEngineChoice.allCases, [false, true])
    func anImpossibleCodeIsInvalidData(_ engine: RenderEngineChoice, isLinear: Bool) throws {
        var data = try Self.jpegs[0].data.get()
        let place = data.count / 3
        // 64 ones: no code has ones alone (ITU-T T.81, annex C).
        data.replaceSubrange(place..<place + 16, with: (0..<16).map { $0 % 2 == 0 ? 0xFF : 0 })
        var rendition = Rendition(width: 40)
        // Planes have no linear light.
        if isLinear && engine == .planes { return }
        rendition.linear = isLinear
        for level in [Rendition.FailOn.error, .warning] {
            let code = Self.code { () throws(ImagePipeline.Error) in try Self.render(data, rendition, engine, level) }
            #expect(code == "corrupt_image", "\(level)")
        }
        for level in [Rendition.FailOn.nothing, .truncated] {
            let image = try Self.render(data, rendition, engine, level)
            #expect(image.size == PixelSize(width: 40, height: 30), "\(level)")
        }
    }

    @Test(arguments: RenderEngineChoice.allCases) func aHarmlessOddityIsAWarning(_ engine: RenderEngineChoice) throws {
        let data = try Self.jpegs[0].data.get()
        let garbage = Data(repeating: 0x12, count: 40)
        let isVips = engine == .vips
        let first = 4 + Int(data[4]) << 8 + Int(data[5])
        let place = isVips ? first : data.count - 2
        let odd = data.prefix(place) + garbage + data.dropFirst(place)
        let image = try Self.render(odd, Rendition(width: 40), engine)
        #expect(image.notes.count == 1 && image.notes[0].contains("extraneous"), "\(image.notes)")
        #expect(try image.data == Self.render(data, Rendition(width: 40), isVips ? .vips : image.engine).data)
        let code = Self.code { () throws(ImagePipeline.Error) in
            try Self.render(odd, Rendition(width: 40), engine, .warning)
        }
        #expect(code == "corrupt_image")
    }

    /// An undefined marker after the last row: all pixels are there.
    @Test(arguments: [RenderEngineChoice.auto, .vips]) func dataAfterTheLastRowIsAWarning(
        _ engine: RenderEngineChoice
    ) throws {
        let data = try Self.jpegs[0].data.get()
        for end in [[0xFF, 0x24, 0, 9, 1, 2], [0xFF, 0xC9, 0, 2, 1, 2]] as [[UInt8]] {
            let image = try Self.render(data.dropLast(2) + end, Rendition(width: 40), engine)
            #expect(image.size == PixelSize(width: 40, height: 30))
        }
    }

    /// Cut between two scans, of which libjpeg does not warn.
    @Test(arguments: [RenderEngineChoice.auto, .vips]) func aMissingScanIsNoMissingEndMarker(
        _ engine: RenderEngineChoice
    ) throws {
        let data = try Self.jpegs[1].data.get()
        let segments = data.withUnsafeBytes { bytes in JPEGMarkers(bytes).map { ($0.marker, $0.start, $0.followsGap) } }
        // A scan of a progressive file of libjpeg begins with its Huffman codes, or without them.
        let cuts = segments.filter { $0.2 }.map(\.1).suffix(3)
        try #require(cuts.count == 3)
        for cut in cuts {
            #expect(throws: ImagePipeline.Error.self, "\(cut) of \(data.count)") {
                try Self.render(data.prefix(cut), Rendition(width: 100), engine)
            }
        }
    }

    /// The end-of-image marker is missing, or half of it: all pixels are there.
    @Test(arguments: [RenderEngineChoice.auto, .vips], [0, 1, 2]) func aMissingEndMarkerIsAWarning(
        _ engine: RenderEngineChoice,
        _ index: Int
    ) throws {
        let data = try Self.jpegs[index].data.get()
        for cut in [1, 2] {
            // A thumbnail of a quarter would not need the end of a progressive image.
            let rendition = Rendition(width: 100)
            let image = try Self.render(data.dropLast(cut), rendition, engine)
            #expect(image.notes.count == 1 && !image.notes[0].contains("at row"), "\(image.notes)")
            let whole = try Self.render(data, rendition, image.maker == .planes ? engine : .vips)
            #expect(image.data == whole.data)
            #expect(throws: ImagePipeline.Error.self) {
                try Self.render(data.dropLast(cut), rendition, engine, .warning)
            }
        }
    }

    /// Wrong codes in the middle: an error from the level `error` on, unless they make the data end early.
    @Test func damageHasALevel() throws {
        var seen: Set<JPEGDamage.Kind> = []
        let places = try Self.jpegs.flatMap { jpeg in
            let data = try jpeg.data.get()
            return stride(from: data.count / 2, to: data.count - 10, by: data.count / 30).map { (data, $0) }
        }
        for (data, place) in places {
            var changed = data
            changed[place] = changed[place] ^ 0x55
            guard changed[place] != 0xFF, changed[place - 1] != 0xFF,
                let damage = JPEGDamage(examining: changed, until: RenderDeadline(.now + .seconds(60)))
            else { continue }
            seen.insert(damage.kind)
            for level in Rendition.FailOn.allCases {
                let code = Self.code { () throws(ImagePipeline.Error) in
                    try Self.render(changed, Rendition(width: 40), .auto, level)
                }
                #expect(code == (damage.isTolerated(by: level) ? "noted" : "corrupt_image"))
            }
        }
        #expect(seen.count >= 2, "\(seen)")
    }

    /// One scan for each component (ITU-T T.81 annex B.2.3): a decoder silently shows a missing one as gray.
    @Test func aComponentWithoutAScanIsMissing() {
        func scan(_ components: [UInt8]) -> Data {
            TestJPEG.segment(0xDA, Data([UInt8(components.count)] + components.flatMap { [$0, 0] } + [0, 63, 0])) + [
                1, 2,
            ]
        }
        let frame = TestJPEG.segment(0xC0, Data([8, 0, 8, 0, 8, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]))
        let start = Data([0xFF, 0xD8]) + frame
        let cases: [(scans: [[UInt8]], missing: Int)] = [
            ([[1], [2]], 1), ([[1]], 2), ([[1], [2], [3]], 0), ([[1, 2, 3]], 0), ([[1, 2], [3]], 0),
        ]
        for (scans, missing) in cases {
            let data = scans.reduce(start) { $0 + scan($1) } + [0xFF, 0xD9]
            #expect(JPEGScanCoverage(data)?.missing == missing)
        }
    }

    /// Fault: a progressive image that ended between two scans was rendered blurred and reported as done.
    @Test(arguments: RenderEngineChoice.allCases)
    func aProgressiveImageHasAllOfItsScans(_ engine: RenderEngineChoice) throws {
        let data = try Self.jpegs[1].data.get()
        let first = try #require(data.range(of: Data([0xFF, 0xDA])))
        let second = try #require(data.range(of: Data([0xFF, 0xDA]), in: first.upperBound..<data.endIndex))
        let cut = data.prefix(upTo: second.lowerBound) + [0xFF, 0xD9]
        #expect(JPEGScanCoverage(cut)?.missing == 3 && JPEGScanCoverage(data)?.missing == 0)
        let code = Self.code { () throws(ImagePipeline.Error) in try Self.render(cut, Rendition(width: 40), engine) }
        #expect(code == "corrupt_image")
        let shown = try Self.render(cut, Rendition(width: 40), engine, .nothing)
        #expect(shown.notes.count == 1 && shown.notes[0].contains("scans of 3"), "\(shown.notes)")
    }

    /// Fault: a damaged progressive image was reported as unsupported, and its bytes stayed in the cache.
    @Test func aMarkerOfAnotherKindInTheCodedDataIsDamage() throws {
        let data = Data(try Self.jpegs[1].data.get())
        let frame = try #require(data.range(of: Data([0xFF, 0xC2])))
        let first = try #require(data.range(of: Data([0xFF, 0xDA])))
        let second = try #require(data.range(of: Data([0xFF, 0xDA]), in: first.upperBound..<data.endIndex))
        let middle = (first.upperBound + second.lowerBound) / 2
        for (place, code) in [(middle, ImagePipeline.Error.Code.corruptImage), (frame.lowerBound, .unsupportedFormat)] {
            var changed = data
            changed.replaceSubrange(place..<place + 2, with: [0xFF, 0xC5])
            let damage = try #require(JPEGDamage(examining: changed, until: RenderDeadline(.now + .seconds(60))))
            #expect(damage.kind == .fatal && damage.error.code == code, "\(damage.text)")
        }
    }

    /// Any prefix of an arithmetic-coded scan is a complete scan of some other image: ITU-T T.81 D.1.8 omits trailing
    /// zeros, 4042 bytes for these stripes. A scan certainly ends early only if a restart marker is missing or an
    /// impossible code occurs.
    @Test func anArithmeticJPEGEndsEarlyIfItSurelyDoes() throws {
        let whole = try Self.arithmetic.map { text in
            try #require(Data(base64Encoded: text, options: .ignoreUnknownCharacters))
        }
        let (restarts, plain) = (whole[1], whole[2])
        func kind(_ data: Data) -> JPEGDamage.Kind? {
            JPEGDamage(examining: data, until: RenderDeadline(.now + .seconds(60)))?.kind
        }
        for data in whole { #expect(kind(data) == nil) }
        for length in [150, 200, 250, 300] { #expect(kind(restarts.prefix(length) + [0xFF, 0xD9]) == .truncated) }
        #expect(kind(plain.prefix(330) + [0xFF, 0xD9]) == .truncated)
    }

    /// Encoded by libjpeg: stripes of 8 pixels, 512 x 512; noise of 32 x 32, with a restart marker for each row, and
    /// without.
    private static let arithmetic = [
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8t
        MC0oMCUoKSj/yQALCAIAAgABAREA/8wABgAQEAX/2gAIAQEAAD8A/wDQbVpzi2l6B/vD4fduGt5fbHSYhvwfp9fn9HS5Wi1hWzzU5NTchIg4
        OgG8EqBUUCX+41N3jhuYbkcrm8/r+P/Z
        """,
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H/
        ///6/+b9//j/yQALCAAgACABAREA/8wABgAQEAX/3QAEAAT/2gAIAQEAAD8A7bA8BwM0bqYCshLwSQrBP2/E4MHv9U7BZD3ESVV2OdlIApLS
        ael1rU8S3wGDYR17WmeBqp1gW+bFMd6QCNSwVIoWzq3Z/9DdsW3HSrd5shA6C7C5jn85oue+Pyz4vbjMljnYZyikHv8ApHnUuAmSIfaLFgQb
        V9OxVmWPqS/KCcU2RqRBPhTQ9SaDHP/RfTVkjgfci9iKy6XWOW43tissYuZy81AL+S1WYaJm2p5hufRJtm9aHX5Ps+WSxtzHPV+QdeaQc0P4
        QPvWLVimVCO3qcD/0oTYt5MGPyZt0JTvTQRnOJEYFyGOocQ1hROmieobISWMFyOrjLpPC4I79vrieCRpSWs5NxVph9wyrLOiVLwltdjwxRi0
        Ez2+FEMOrP/Z
        """,
        """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H/
        ///6/+b9//j/yQALCAAgACABAREA/8wABgAQEAX/2gAIAQEAAD8A7bA8BwM0bqYCshLwSQrBP2/E4MHv9U7BZD3ESVV2OdlIApLSael1rU8S
        3wGDYR17WmeBqp1gW+bFMd6QCNSwVIoWzq3YsJ+/iwOw/K5/sl+9GJ5lKHSozlQ46Pje7NqebIWTzA/UYceY4Au9PHaEvSWl4Z2S3KKcUrkF
        RB2jzasmya1DaVrULBiga1rhb4M3FgGS/wBBmcEHY5jzveNNxcraKyCmut6M63MLqy1NP92kzHLM5ZdfqbsJnHCHFUJek/EPDwns/ItlDMnu
        t/DhHTDjAIGtJ0Gg5bqEzUZ9tFzGhVtEiPo29YAef9pGA/noTOTtivNicv/Z
        """,
    ]

    @Test(arguments: [Rendition.Format.png, .gif]) func otherFormatsThatEndEarly(_ format: Rendition.Format) throws {
        let data = try Self.noise(64, 64, format)
        let cut = data.prefix(data.count / 2)
        let code = Self.code { () throws(ImagePipeline.Error) in
            try Self.render(cut, Rendition(width: 32), .auto)
        }
        #expect(code == "corrupt_image")
        let shown = try Self.render(cut, Rendition(width: 32), .auto, .nothing)
        #expect(shown.notes.count == 1 && shown.notes[0].hasPrefix("the image is damaged"), "\(shown.notes)")
    }

    /// Fault: the messages about other formats than JPEG were those of the decoder alone.
    @Test(arguments: [Rendition.Format.png, .gif]) func theMessageHasTheRemedyIfItHelps(
        _ format: Rendition.Format
    ) throws {
        let data = try Self.noise(64, 64, format)
        let error = #expect(throws: ImagePipeline.Error.self) {
            try Self.render(data.prefix(data.count / 2), Rendition(width: 16), .auto)
        }
        #expect(error?.message.contains("set Rendition.failOn to .nothing") == true, "\(String(describing: error))")
    }

    @Test func aWebPThatIsCutShortIsReportedWithItsSize() throws {
        let data = try Self.noise(64, 64, .webp)
        for level in [Rendition.FailOn.truncated, .nothing] {
            let error = #expect(throws: ImagePipeline.Error.self) {
                try Self.render(data.prefix(data.count / 2), Rendition(width: 16), .auto, level)
            }
            #expect(error?.code == .corruptImage)
            let sizes = "to \(data.count / 2) of \(data.count) bytes"
            #expect(error?.message.contains(sizes) == true, "\(String(describing: error))")
        }
    }

    /// A rendition of a damaged image must not share a key with a rendition of a whole one.
    @Test func aLevelHasKeysOfItsOwn() throws {
        let key = CacheKey(.original, ["a"])
        let levels = Rendition.FailOn.allCases.map { key.rendition(Rendition(width: 5, failOn: $0), by: .auto) }
        #expect(Set(levels).count == 4)
        #expect(
            key.rendition(Rendition(width: 5), by: .auto) == levels[1],
            "the usual level has the keys it always had"
        )
        let rendition = Rendition(width: 5, failOn: .nothing)
        let json = try JSONEncoder().encode(rendition)
        #expect(String(decoding: json, as: UTF8.self).contains(#""failOn":"none""#))
        #expect(try JSONDecoder().decode(Rendition.self, from: json) == rendition)
    }

    /// Fault: libvips has one error buffer for all threads, and a file's message carried the reason of the file before
    /// it.
    @Test(.timeLimit(.minutes(1))) func aReasonIsTheFilesOwn() async throws {
        let png = try Self.noise(64, 64, .png)
        let gif = try Self.noise(64, 64, .gif)
        let jpeg = try Self.jpegs[0].data.get()
        let kinds: [(data: Data, reason: String, others: [String])] = [
            (png.prefix(png.count / 2), "png", ["gif", "jpeg"]),
            (gif.prefix(gif.count / 2), "gif", ["png", "jpeg"]),
            (jpeg.prefix(jpeg.count / 2), "jpeg", ["png", "gif"]),
        ]
        await withTaskGroup(of: String?.self) { group in
            for round in 0..<120 {
                let kind = kinds[round % 3]
                group.addTask {
                    do throws(ImagePipeline.Error) {
                        _ = try Self.render(kind.data, Rendition(width: 32, format: .png), .vips)
                        return "rendered"
                    } catch {
                        let text = error.message.lowercased()
                        let isOwn = text.contains(kind.reason) && !kind.others.contains { text.contains($0) }
                        return isOwn && !text.contains("no details") ? nil : error.message
                    }
                }
            }
            for await wrong in group { #expect(wrong == nil) }
        }
    }
}

extension EncodedImage {
    /// The engine that produces the same bytes.
    fileprivate var engine: RenderEngineChoice { maker == .planes ? .planes : .vips }
}
