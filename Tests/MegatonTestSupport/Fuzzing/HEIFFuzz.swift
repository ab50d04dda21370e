#if DEBUG || MEGATON_FUZZ
    public import Foundation

    @testable import MegatonCore
    @testable import MegatonPipeline

    @testable import MegatonRendering

    /// Boxes of untrusted HEIF files and headers of their streams: any bytes are measured or refused in short time, and
    /// every measure is plausible.
    public struct HEIFFuzz: FuzzTarget {
        public let name = "heif"
        public let words = [
            "ftyp", "meta", "hdlr", "pitm", "iinf", "infe", "iloc", "iref", "iprp", "ipco", "ipma", "ispe", "idat",
            "grpl", "dimg", "auxl", "thmb", "cdsc", "grid", "iovl", "iden", "av01", "hvc1", "av1C", "hvcC", "auxC",
            "clap", "irot", "imir", "colr", "pixi", "mime", "Exif", "deflate\0", "\0\0\0\u{1}", "\0\0\0\0", "\u{7F}",
        ]
        public let seeds: [[UInt8]]

        /// - Parameter files: further small images; only HEIF and AVIF are used.
        public init(files: [Data] = []) {
            var random = SeededGenerator(seed: 1)
            let made = (0..<12).map { _ in Self.file(using: &random).data() }
            seeds = (made + files.filter { AssetType($0)?.isHEIF == true }).map { Array($0) }
        }

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            Array(Self.file(using: &random).data())
        }

        /// A few items of all types, with references and properties that may match.
        private static func file(using random: inout SeededGenerator) -> HEIFWriter {
            var file = HEIFWriter()
            let side = random.pick([1, 16, 64, 65, 512, 16_384, 65_536])
            let isReduced = random.once(in: 2)
            let size: (width: Int, height: Int)? = random.once(in: 2) ? nil : (side, 64)
            let frame = isReduced ? TestStream.av1Still : TestStream.av1Frame(size: size)
            for property in [
                TestStream.av1C, HEIFWriter.ispe(64, 64), HEIFWriter.ispe(side, 64),
                TestStream.hvcC([TestStream.hevcParameters(side, 64)]),
                HEIFWriter.auxC("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"),
                HEIFWriter.box("irot", Data([1])), HEIFWriter.box("clap", Data(random.bytes(32))),
            ] { file.add(property: property) }
            for blob in [
                TestStream.av1Sequence(side, 64, isReduced: isReduced) + frame,
                TestStream.hevc([TestStream.hevcParameters(64, side), TestStream.hevcSlice]),
                HEIFWriter.grid(rows: 2, columns: 1, 64, 128), HEIFWriter.overlay(64, side, at: [(0, 0), (1, 1)]),
            ] { file.add(blob: blob) }
            let count = Int.random(in: 1...6, using: &random)
            for id in 1...count {
                let kind = Int.random(in: 0..<5, using: &random)
                let properties = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                    Int.random(in: 1...7, using: &random)
                }
                file.add(
                    id,
                    ["av01", "hvc1", "grid", "iovl", "iden"][kind],
                    properties: [kind == 1 ? 4 : 1, 2] + properties,
                    blob: min(kind, 3)
                )
            }
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let to = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    Int.random(in: 1...(count + 1), using: &random)
                }
                let type = random.pick(["dimg", "dimg", "auxl", "thmb", "cdsc"])
                file.references.append(.init(type, Int.random(in: 1...count, using: &random), to))
            }
            return file
        }

        public func check(_ input: [UInt8]) throws {
            let data = Data(input)
            let start = ContinuousClock.now
            do throws(ImagePipeline.Error) {
                let demand = try HEIFDemand(data)
                let size = demand.largest
                try check(size.width > 0 && size.height > 0, "an image of \(size)")
                try check(demand.longestSide >= max(size.width, size.height), "\(size) is longer than the longest")
                try check(demand.work > 0 && demand.bytes > 0, "an image that takes nothing")
            } catch {
                let known: Set<ImagePipeline.Error.Code> = [
                    .corruptImage, .headerTooLarge, .imageTooLarge, .unsupportedFormat,
                ]
                try promise(known.contains(error.code) && !error.message.isEmpty, "\(error)")
            }
            // Far more than 64 kB can take, even on a busy machine.
            try promise(start.duration(to: .now) < .seconds(10), "measuring took \(start.duration(to: .now))")
        }

        /// Throws a violation as the pipeline's own error, so that one `catch` handles both.
        private func check(_ isKept: Bool, _ text: String) throws(ImagePipeline.Error) {
            if !isKept { throw ImagePipeline.Error(.renderFailed, text) }
        }
    }
#endif
