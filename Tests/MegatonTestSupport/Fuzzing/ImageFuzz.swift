#if DEBUG || MEGATON_FUZZ
    public import Foundation

    @testable import MegatonCore
    @testable import MegatonPipeline

    @testable import MegatonRendering

    /// Untrusted images: any bytes are refused, or become an image of the requested size.
    public struct ImageFuzz: FuzzTarget {
        public let name = "image"
        public let words = [
            "IHDR", "IDAT", "PLTE", "tRNS", "iCCP", "acTL", "RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ANMF", "ALPH",
            "EXIF",
            "Exif\0\0", "GIF89a", "NETSCAPE2.0", "ftyp", "avif", "heic", "mif1", "meta", "iloc", "ipma", "ispe",
            "JFIF\0",
        ]
        public let seeds: [[UInt8]]
        private let engine: VipsEngine
        /// The engine that renders: planes if possible.
        private let router = RoutingEngine(isStrict: false)
        /// Far below the defaults: a header that lies about its size is not worth seconds.
        private let limits: RenderLimits

        /// - Parameter files: further small images.
        public init(files: [Data] = []) throws {
            var limits = RenderLimits()
            limits.pixels = 300_000
            self.limits = limits
            let (engine, png) = (VipsEngine(), TestImage.quarters(width: 24, height: 16))
            self.engine = engine
            let wanted =
                Rendition.Format.allCases.filter { $0 != .jxl }.map { Rendition(width: 24, format: $0) }
                + [Rendition(width: 7, format: .jpeg, quality: 30, progressive: true)]
            let made = try wanted.map { rendition in
                let plan = RenderPlan(try engine.probe(png, type: .png), [rendition])
                return try engine.execute(plan, png, deadline: RenderDeadline(.now + .seconds(60)))[0].data
            }
            seeds = ([png, Self.gif] + made + files).map { Array($0) }
        }

        /// Two frames of 2x2 pixels with a local color table, by the specification (GIF89a sections 18 to 22).
        private static let gif: Data = {
            let frame: [UInt8] = [
                0x21, 0xF9, 4, 1, 10, 0, 1, 0, 0x2C, 0, 0, 0, 0, 2, 0, 2, 0, 0x80, 255, 0, 0, 0, 0, 255, 2, 3, 0x44,
                0x02,
                0x05, 0,
            ]
            return Data(Array("GIF89a".utf8) + [2, 0, 2, 0, 0, 0, 0] + frame + frame + [0x3B])
        }()

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let side = { (random: inout SeededGenerator) in random.pick([0, 1, 2, 30, 16_385, 65_536, 2_147_483_647]) }
            switch Int.random(in: 0..<3, using: &random) {
            case 0: return Array(TestImage.bomb(width: side(&random), height: side(&random)))
            case 1: return Array(TestImage.quarters(width: Int.random(in: 1...40, using: &random), height: 9))
            default: return seeds[Int.random(in: 0..<seeds.count, using: &random)].prefix(32) + random.bytes(64)
            }
        }

        public func check(_ input: [UInt8]) throws {
            let data = Data(input)
            guard let type = AssetType(data), AssetType.supported.contains(type) else { return }
            do throws(ImagePipeline.Error) {
                try render(data, type)
                if type == .jpeg {
                    _ = JPEGScans(data)
                    _ = engine.embeddedThumbnail(data)
                    let plan = try engine.planPartly(data, limits, as: nil)
                    let deadline = RenderDeadline(.now + .seconds(60))
                    _ = try engine.image(plan, data, failOn: .nothing, orientation: nil, deadline: deadline)
                }
            } catch {
                let known: Set<ImagePipeline.Error.Code> = [
                    .corruptImage, .imageTooLarge, .sideTooLong, .tooManyBands, .tooManyFrames, .unsupportedFormat,
                    .headerTooLarge, .tooCostly,
                ]
                try promise(known.contains(error.code), "\(type): \(error)")
            }
        }

        private func render(_ data: Data, _ type: AssetType) throws(ImagePipeline.Error) {
            let probe = try router.probe(data, type: type)
            try limits.check(probe, frames: max(1, probe.frames))
            for rendition in Self.renditions {
                let plan = RenderPlan(probe, [rendition])
                let image = try router.execute(plan, data, deadline: RenderDeadline(.now + .seconds(60)))[0]
                try expect(AssetType(image.data)?.description == rendition.format.rawValue, "no \(rendition.format)")
                let (width, height) = (image.size.width, image.size.height)
                try expect((1...5).contains(width) && (1...5).contains(height), "\(image.size) within 5x5")
            }
        }

        private static let renditions = [
            Rendition(width: 5, height: 5, format: .png), Rendition(width: 5, height: 5),
            Rendition(width: 5, height: 5, fit: .cover, format: .webp, gravity: .east),
            Rendition(
                width: 4,
                height: 5,
                fit: .cover,
                format: .gif,
                gravity: .attention,
                animated: true,
                keepMetadata: .copyright,
                profile: .keep
            ),
        ]

        /// Throws a violation as the pipeline's own error, so that one `catch` handles both.
        private func expect(_ isKept: Bool, _ text: String) throws(ImagePipeline.Error) {
            if !isKept { throw ImagePipeline.Error(.renderFailed, text) }
        }
    }
#endif
