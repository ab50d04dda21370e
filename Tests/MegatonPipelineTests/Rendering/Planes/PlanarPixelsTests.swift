import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// PNGs and WebP images whose samples are scaled as planes look as libvips alone renders them.
@Suite(.timeLimit(.minutes(5))) struct PlanarPixelsTests {
    private static let wanted = [
        Rendition(name: "inside", width: 64, height: 64, format: .png),
        Rendition(name: "jpeg", width: 71, quality: 99, background: Color(red: 0, green: 200, blue: 100)),
        Rendition(name: "cover", width: 40, height: 40, fit: .cover, format: .png, gravity: .attention),
        Rendition(name: "canvas", width: 50, height: 50, fit: .contain, quality: 95),
        Rendition(name: "fill", width: 33, height: 81, fit: .fill, format: .png),
    ]
    /// Results that are encoded from planes, of a quality that leaves the difference to colors and kernels. Sides of
    /// 4:2:0 are even and odd.
    private static let fromPlanes: [Rendition] = {
        var renditions = [
            Rendition(name: "flat", width: 81, quality: 99, background: Color(red: 0, green: 200, blue: 100)),
            Rendition(name: "narrow", width: 34, height: 61, fit: .fill, quality: 98, progressive: true),
            Rendition(name: "fine", width: 40, height: 30, fit: .cover, quality: 99, gravity: .northWest),
            Rendition(name: "webp", width: 45, format: .webp, quality: 100),
        ]
        renditions[0].chroma = .s420
        renditions[1].chroma = .s420
        renditions[3].flatten = true
        return renditions
    }()
    /// Mean difference of what is seen on a gray page, 0 to 255. The kernels differ a little, and so does rounding.
    private static let tolerance = 2.5

    private static let kinds: [(colorType: UInt8, depth: Int)] = [
        (0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (3, 1), (3, 4), (3, 8), (4, 8), (6, 8),
    ]

    // MARK: - PNG

    @Test(arguments: kinds, [1, 7]) func pngsOfAllKindsLookTheSame(
        _ kind: (colorType: UInt8, depth: Int),
        _ parts: Int
    ) throws {
        var png = TestPNG(kind.colorType, depth: kind.depth, width: 211, height: 133)
        png.parts = parts
        if png.colorType == 3 { png.chunks = [("PLTE", Self.palette(1 << png.depth))] }
        try expectLikeness(Self.waves(png), .png, "\(kind)")
    }

    /// Transparent colors without an alpha channel.
    @Test(arguments: [(0, 8), (0, 2), (2, 8), (3, 8), (3, 2)]) func transparentColorsBecomeAlpha(
        _ colorType: UInt8,
        _ depth: Int
    ) throws {
        var png = TestPNG(colorType, depth: depth, width: 120, height: 90)
        switch colorType {
        case 0: png.chunks = [("tRNS", Data([0, 1]))]
        case 2: png.chunks = [("tRNS", Data([0, 10, 0, 20, 0, 30]))]
        default: png.chunks = [("PLTE", Self.palette(1 << depth)), ("tRNS", Data([0, 100]))]
        }
        let data = png.data { x, y in
            let isClear = (x / 20 + y / 15) % 2 == 0
            return colorType == 2 ? (isClear ? [10, 20, 30] : [200, 30, x]) : [isClear ? 1 : (colorType == 0 ? 2 : 0)]
        }
        // The edges of the squares are as sharp as the kernel.
        try expectLikeness(data, .png, "\(colorType) of \(depth) bits", tolerance: 5)
    }

    /// Colors of transparent pixels do not bleed into visible ones.
    @Test func hiddenColorsStayHidden() throws {
        let data = TestImage.png(width: 200, height: 200) { x, _ in x < 101 ? (255, 0, 0, 0) : (0, 0, 255, 255) }
        let rendition = Rendition(width: 40, format: .png)
        let image = try PixelReader(try #require(try planar(data, .png, [rendition]))[0].data)
        for x in 0..<image.width where image.pixel(x, 20)[3] > 0 {
            let pixel = image.pixel(x, 20)
            #expect(pixel[0] == 0 && pixel[2] > 250, "\(x): \(pixel)")
        }
        #expect(image.pixel(3, 3) == [0, 0, 0, 0])
    }

    /// Fault: libvips let them bleed if only one side of the image changes.
    @Test(arguments: [(40, 200), (200, 40), (201, 200)]) func hiddenColorsStayHiddenIfOneSideChanges(
        _ width: Int,
        _ height: Int
    ) throws {
        let data = TestImage.png(width: 200, height: 200) { x, y in
            (width == 200 ? y : x) < 101 ? (255, 0, 0, 0) : (0, 0, 255, 255)
        }
        let rendition = Rendition(width: width, height: height, fit: .fill, format: .png, enlarge: true)
        let plan = try plan(data, .png, [rendition])
        let image = try PixelReader(try VipsEngine().execute(plan, data, deadline: Self.deadline)[0].data)
        #expect(image.width == width && image.height == height)
        for y in 0..<image.height {
            for x in 0..<image.width where image.pixel(x, y)[3] > 0 {
                let pixel = image.pixel(x, y)
                try #require(pixel[0] == 0 && pixel[2] > 250, "\(x), \(y): \(pixel)")
            }
        }
    }

    /// A slope shows where each pixel is. Fault: a library read wrong samples for some columns.
    @Test(arguments: [64, 50, 33, 97]) func pixelsStayInTheirPlace(_ width: Int) throws {
        let png = TestPNG(2, width: 200, height: 100)
        let source = png.data { x, y in [x, y * 2, 255 - x] }
        let original = Rendition(width: 200, format: .webp, quality: 100)
        let webp = try VipsEngine().execute(plan(source, .png, [original]), source, deadline: Self.deadline)[0].data
        for (data, type, tolerance) in [(source, AssetType.png, 0.8), (webp, .webp, 5)] {
            let made = try #require(try planar(data, type, [Rendition(width: width, format: .png)]))
            let image = try PixelReader(made[0].data)
            for y in stride(from: 4, to: image.height - 4, by: 5) {
                for x in 4..<(image.width - 4) {
                    let across = (Double(x) + 0.5) * 200 / Double(width) - 0.5
                    let down = (Double(y) + 0.5) * 100 / Double(image.height) - 0.5
                    for (value, wanted) in zip(image.pixel(x, y), [across, down * 2, 255 - across]) {
                        #expect(abs(Double(value) - wanted) <= tolerance, "\(type) \(x) \(y)")
                    }
                }
            }
        }
    }

    @Test func colorsThatNeedConversionAreLeftToLibvips() throws {
        var png = TestPNG(2, width: 90, height: 70)
        png.chunks = [("iCCP", Data("name\0\0".utf8) + TestImage.zlib(Data(repeating: 7, count: 300)))]
        #expect(try base(Self.waves(png), .png) == nil)
        png.chunks = []
        #expect(try base(Self.waves(png), .png) != nil)
    }

    /// Fault: each of many profiles was inflated, and the last one counted, where libpng takes the first.
    @Test func chunksThatLibpngRefusesAreLeftToIt() throws {
        var png = TestPNG(2, width: 90, height: 70)
        let probe = try RoutingEngine(isStrict: false).probe(Self.waves(png), type: .png)
        let profile = (name: "iCCP", content: Data("name\0\0".utf8) + TestImage.zlib(Data(repeating: 7, count: 300)))
        let text = (name: "tEXt", content: Data("a\0b".utf8))
        png.chunks = Array(repeating: text, count: 20)
        #expect(base(Self.waves(png), probe) != nil)
        for chunks in [[profile, profile], [("ABCD", Data())], Array(repeating: text, count: HeaderBounds.parts)] {
            png.chunks = chunks
            #expect(base(Self.waves(png), probe) == nil)
        }
    }

    @Test func unusualPNGsAreLeftToLibvips() throws {
        var deep = TestPNG(2, depth: 16, width: 90, height: 70)
        #expect(try base(Self.waves(deep), .png) == nil)
        deep = TestPNG(2, width: 90, height: 70)
        deep.interlace = 1
        let data = Self.waves(deep)
        #expect(data.withUnsafeBytes { PNGChunks($0) } == nil)
    }

    /// Each byte of the header and of the checksums, and some of the rows.
    @Test func damagedPNGsAreLeftToLibvips() throws {
        var png = TestPNG(3, depth: 4, width: 90, height: 70)
        png.chunks = [("PLTE", Self.palette(16)), ("tRNS", Data([0, 100]))]
        png.parts = 3
        let data = Self.waves(png)
        let probe = try RoutingEngine(isStrict: false).probe(data, type: .png)
        let places = Array(0..<140) + Array(stride(from: 140, to: data.count - 12, by: 97))
        for place in places {
            var damaged = data
            damaged[place] ^= 0x41
            #expect(base(damaged, probe) == nil, "byte \(place)")
        }
        for length in [0, 7, 8, 20, 33, 60, 200, data.count / 2, data.count - 13, data.count - 12] {
            #expect(base(data.prefix(length), probe) == nil, "\(length) bytes")
        }
    }

    /// Fewer rows than the header says, or more, with right checksums.
    @Test(arguments: [-200, -1, 1, 200]) func rowsOfAWrongLengthAreLeftToLibvips(_ more: Int) throws {
        let png = TestPNG(2, width: 50, height: 40)
        let whole = 40 * 151
        let right = png.data(rows: TestImage.zlib(Data(repeating: 0, count: whole)))
        let probe = try RoutingEngine(isStrict: false).probe(right, type: .png)
        #expect(base(right, probe) != nil)
        #expect(base(png.data(rows: TestImage.zlib(Data(repeating: 0, count: whole + more))), probe) == nil)
    }

    /// A filter that does not exist, which checksums do not show.
    @Test func anUnknownFilterIsLeftToLibvips() throws {
        let png = TestPNG(2, width: 50, height: 40)
        var rows = Data(repeating: 0, count: 40 * 151)
        let probe = try RoutingEngine(isStrict: false).probe(png.data(rows: TestImage.zlib(rows)), type: .png)
        rows[20 * 151] = 9
        #expect(base(png.data(rows: TestImage.zlib(rows)), probe) == nil)
    }

    // MARK: - WebP

    @Test(arguments: [(false, false), (false, true), (true, false), (true, true)], [(211, 133), (210, 132)])
    func webpImagesOfAllKindsLookTheSame(_ kind: (isLossless: Bool, hasAlpha: Bool), _ size: (Int, Int)) throws {
        let source = Self.waves(TestPNG(kind.hasAlpha ? 6 : 2, width: size.0, height: size.1))
        let rendition = Rendition(
            width: size.0,
            height: size.1,
            format: .webp,
            quality: 95,
            lossless: kind.isLossless
        )
        let webp = try VipsEngine().execute(plan(source, .png, [rendition]), source, deadline: Self.deadline)[0].data
        try expectLikeness(webp, .webp, "\(kind) \(size)")
    }

    @Test func damagedWebPImagesAreLeftToLibvips() throws {
        let source = Self.waves(TestPNG(2, width: 120, height: 90))
        let rendition = Rendition(width: 120, format: .webp, quality: 90)
        let webp = try VipsEngine().execute(plan(source, .png, [rendition]), source, deadline: Self.deadline)[0].data
        let probe = try RoutingEngine(isStrict: false).probe(webp, type: .webp)
        #expect(base(webp, probe) != nil)
        for length in [0, 11, 12, 20, 30, webp.count / 2, webp.count - 1] {
            #expect(base(webp.prefix(length), probe) == nil, "\(length) bytes")
        }
        let animation = webp.prefix(12) + Data("ANMF".utf8) + webp.dropFirst(16)
        #expect(base(animation, probe) == nil)
    }

    // MARK: - JPEG

    /// Results that need pixels: of JPEGs in all samplings and orientations.
    @Test(arguments: [TestSampling.s444, .s422, .s420], 1...8) func jpegsLookTheSame(
        _ sampling: TestSampling,
        _ orientation: Int
    ) throws {
        let jpeg = try sampling.jpeg(411, 333) { x, y in
            let wave = { (period: Double) in UInt8(127.5 * (1 + sin(Double(x) / period) * cos(Double(y) / period))) }
            return (wave(29), wave(37), wave(43))
        }
        let data = TestJPEG.inserting(TestJPEG.exif(orientation: orientation), into: jpeg)
        for rendition in Self.wanted where rendition.name != "jpeg" {
            let made = try #require(try planar(data, .jpeg, [rendition]), "\(rendition.name)")
            try expectLikeness(made, data, .jpeg, [rendition], "\(sampling) \(orientation)")
        }
    }

    /// Missing scans, and codes that do not exist, have the messages and notes of libvips.
    @Test func damagedJPEGsAreLeftToLibvips() throws {
        let data = try TestPicture.jpeg(400, 300, progressive: true)
        let wanted = Rendition(width: 150, format: .png)
        #expect(try planar(data, .jpeg, [wanted]) != nil)
        for cut in [data.prefix(data.count / 2), data.prefix(data.count / 2) + [0xFF, 0xD9]] {
            #expect(throws: ImagePipeline.Error.self) { try DamageTests.render(cut, wanted, .auto) }
            let image = try DamageTests.render(cut, wanted, .auto, .nothing)
            #expect(image.notes.count == 1)
        }
    }

    // MARK: - Choice

    @Test func onlyWhatIsScaledDownIsDecodedToPlanes() throws {
        let data = Self.waves(TestPNG(2, width: 90, height: 70))
        func usesPlanes(_ rendition: Rendition) throws -> Bool {
            let plan = try plan(data, .png, [rendition])
            return plan.hasPlanarPixels(plan.passes[0])
        }
        #expect(try usesPlanes(Rendition(width: 50)))
        #expect(try usesPlanes(Rendition(width: 50, format: .avif)))
        #expect(try !usesPlanes(Rendition(width: 90)))
        #expect(try !usesPlanes(Rendition(width: 200, enlarge: true)))
        #expect(try !usesPlanes(Rendition(width: 50, keepMetadata: .copyright)))
        #expect(try !usesPlanes(Rendition(width: 50, failOn: .warning)))
    }

    /// The budget of memory knows that all of the source is decoded.
    @Test func theCostHasAllSamples() throws {
        let data = Self.waves(TestPNG(6, width: 400, height: 300))
        let cost = try plan(data, .png, [Rendition(width: 50)]).cost
        #expect(cost.bytes >= 2 * 400 * 300 * 4)
        #expect(cost.bytes < 4 * 400 * 300 * 4)
    }

    /// Images of other programs.
    @Test(.enabled(if: Corpus.isThere, "the corpus is not there; set MEGATON_CORPUS"))
    func imagesOfTheCorpusLookTheSame() async throws {
        let compared = TestLog<String>()
        try await inPairs(Self.names) { name in
            let data = try Corpus.data(name)
            guard let type = AssetType(data), let probe = try? VipsEngine().probe(data, type: type),
                probe.width > 64, probe.height > 64, (try? plan(data, type, [Self.small])) != nil,
                let made = try planar(data, type, [Self.small])
            else { return }
            compared.append(name)
            try expectLikeness(made, data, type, [Self.small], name)
        }
        #expect(compared.count > 60)
    }

    private static let small = Rendition(width: 48, height: 48, fit: .cover, format: .png)

    private static let names: [String] = {
        let all = FileManager.default.enumerator(atPath: Corpus.path(""))?.compactMap { $0 as? String } ?? []
        return all.sorted().filter { name in
            !name.hasPrefix("photos/") && [".png", ".webp", ".jpg", ".jpeg"].contains { name.hasSuffix($0) }
        }
    }()

    // MARK: - Comparing

    private static let pixels = PlanarPixels(codecs: TurboJPEGCodecs(), axes: PlaneAxes())

    private static var deadline: RenderDeadline { RenderDeadline(.now + .seconds(60)) }

    private func plan(_ data: Data, _ type: AssetType, _ renditions: [Rendition]) throws -> RenderPlan {
        try RenderPlan(probing: data, type, renditions, RoutingEngine(isStrict: false), RenderLimits())
    }

    private func base(_ data: Data, _ type: AssetType) throws -> PixelBuffer? {
        let plan = try plan(data, type, [Rendition(width: 30)])
        return base(plan.passes[0], plan, data)
    }

    private func base(_ pass: RenderPlan.Pass, _ plan: RenderPlan, _ data: Data) -> PixelBuffer? {
        Self.pixels.decode(pass, of: plan, from: data).flatMap { Self.pixels.base(of: pass, plan, from: $0) }
    }

    private func base(_ data: Data, _ probe: ImageProbe) -> PixelBuffer? {
        let plan = RenderPlan(probe, [Rendition(width: 30)])
        return base(plan.passes[0], plan, Data(data))
    }

    /// - Returns: nil if a pass is left to libvips.
    private func planar(_ data: Data, _ type: AssetType, _ renditions: [Rendition]) throws -> [EncodedImage]? {
        let plan = try plan(data, type, renditions)
        guard plan.passes.allSatisfy({ base($0, plan, data) != nil }) else { return nil }
        return try RoutingEngine(isStrict: false).execute(plan, data, deadline: Self.deadline)
    }

    private func expectLikeness(
        _ data: Data,
        _ type: AssetType,
        _ name: String,
        tolerance: Double = Self.tolerance
    ) throws {
        for rendition in Self.wanted {
            let made = try #require(try planar(data, type, [rendition]), "\(name) \(rendition.name)")
            try expectLikeness(made, data, type, [rendition], name, tolerance)
        }
        // One decode for all.
        let made = try #require(try planar(data, type, Self.wanted), "\(name)")
        try expectLikeness(made, data, type, Self.wanted, name, tolerance)
        // All from planes, each alone and as a pyramid.
        for renditions in Self.fromPlanes.map({ [$0] }) + [Self.fromPlanes] {
            let made = try #require(try planar(data, type, renditions), "\(name)")
            #expect(made.allSatisfy { $0.maker == .planes }, "\(name)")
            try expectLikeness(made, data, type, renditions, name, tolerance)
        }
    }

    private func expectLikeness(
        _ made: [EncodedImage],
        _ data: Data,
        _ type: AssetType,
        _ renditions: [Rendition],
        _ name: String,
        _ tolerance: Double = Self.tolerance
    ) throws {
        let faithful = renditions.map { rendition in
            var rendition = rendition
            rendition.qualityProfile = .faithful
            return rendition
        }
        let theirs = try VipsEngine().execute(plan(data, type, faithful), data, deadline: Self.deadline)
        for (rendition, (ours, theirs)) in zip(renditions, zip(made, theirs)) {
            let what = "\(name) \(rendition.name)"
            let (image, truth) = (try PixelReader(ours.data), try PixelReader(theirs.data))
            try #require(image.width == truth.width && image.height == truth.height, "\(what)")
            try #require(image.bands == truth.bands, "\(what)")
            // A crop by attention may be elsewhere if the image has several places of the same weight.
            if rendition.gravity == .attention { continue }
            let distance = Self.seen(image, truth)
            #expect(distance < tolerance, "\(what): \(distance)")
        }
    }

    /// Mean difference of two images on a gray page.
    private static func seen(_ image: PixelReader, _ other: PixelReader) -> Double {
        func colors(_ pixel: [UInt8]) -> [Double] {
            guard pixel.count % 2 == 0 else { return pixel.map(Double.init) }
            let alpha = Double(pixel[pixel.count - 1]) / 255
            return pixel.dropLast().map { Double($0) * alpha + 128 * (1 - alpha) }
        }
        var sum = 0.0
        for y in 0..<image.height {
            for x in 0..<image.width {
                let (one, two) = (colors(image.pixel(x, y)), colors(other.pixel(x, y)))
                sum += zip(one, two).reduce(0) { $0 + abs($1.0 - $1.1) } / Double(one.count)
            }
        }
        return sum / Double(image.width * image.height)
    }

    // MARK: - Pictures

    /// Waves of all channels, slow enough to survive the scaling.
    private static func waves(_ png: TestPNG) -> Data {
        let most = Double(1 << png.depth - 1)
        let channels = [0: 1, 2: 3, 3: 1, 4: 2, 6: 4][png.colorType] ?? 1
        return png.data { x, y in
            (0..<channels).map { channel in
                let wave = sin(Double(x) / (17 + 5 * Double(channel))) * cos(Double(y) / (23 - 4 * Double(channel)))
                return Int((most * (wave + 1) / 2).rounded())
            }
        }
    }

    private static func palette(_ count: Int) -> Data {
        Data(
            (0..<count).flatMap { index -> [UInt8] in
                let level = UInt8(255 * index / max(1, count - 1))
                return [level, 255 - level, UInt8(index * 7 & 255)]
            }
        )
    }
}
