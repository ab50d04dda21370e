#if DEBUG || MEGATON_FUZZ
    internal import CCoefficients
    internal import Foundation

    @testable import MegatonCore
    @testable import MegatonRendering

    /// The lowest coefficients of all blocks of a JPEG, as two decoders read them.
    public struct LowCoefficientsOfFile {
        /// Those that libjpeg reads; nil if it warns, or cannot read the file.
        public let expected: [Int16]?
        /// Those of `LowCoefficientReader`; nil if it leaves the file to libjpeg.
        public let found: [Int16]?

        /// Whether the reader has the same means when it reads nothing else.
        public let hasSameMeans: Bool

        /// Coefficients up to which files are compared: those of 40 megapixels.
        private static let limit = 4_000_000

        /// - Returns: nil if the file is neither a baseline JPEG nor a progressive one with more scans than a quarter
        ///   of its size needs, or too large to compare.
        public init?(_ file: [UInt8]) {
            let data = Data(file)
            if let header = BaselineHeader(data) {
                self.init(baseline: data, header.frame)
            } else {
                self.init(progressive: data)
            }
        }

        private init?(baseline data: Data, _ frame: CoefficientFrame) {
            guard let expected = Self.expected(data, frame) else { return nil }
            self.expected = expected.coefficients
            var reader = LowCoefficientReader()
            let size = PixelSize(width: frame.width, height: frame.height)
            let parts = reader.read(data, of: size, frame.sampling, as: RawBlock.self)
            let coefficients = parts.map { Self.coefficients(reader, $0) }
            found = coefficients
            let ofMeans = reader.read(data, of: size, frame.sampling, as: RawMean.self)
            let means = ofMeans.map { Self.coefficients(reader, $0) }
            hasSameMeans = means == coefficients.map(Self.means)
            // The form with four samples reads the same data.
            _ = reader.read(data, of: size, frame.sampling, as: QuarterBlock.self)
        }

        /// libjpeg reads the needed scans alone, as if the file ended behind them.
        private init?(progressive data: Data) {
            guard let frame = Self.frame(data), frame.isProgressive, let quarter = Self.part(data, .quarter),
                let expected = Self.expected(quarter, frame)
            else { return nil }
            self.expected = expected.coefficients
            var reader = LowCoefficientReader()
            let size = PixelSize(width: frame.width, height: frame.height)
            // The bytes behind the scans are not looked at.
            let parts = reader.readProgressive(data, of: size, frame.sampling, .quarter, as: RawBlock.self)
            found = parts.map { Self.coefficients(reader, $0) }
            let ofMeans = reader.readProgressive(data, of: size, frame.sampling, .eighth, as: RawMean.self)
            if let ofMeans, let eighth = Self.part(data, .eighth) {
                let means = Self.coefficients(reader, ofMeans)
                hasSameMeans = Self.expected(eighth, frame)?.coefficients.map(Self.means) == means
            } else {
                hasSameMeans = true
            }
            _ = reader.readProgressive(data, of: size, frame.sampling, .quarter, as: QuarterBlock.self)
        }

        /// The first frame of a file; nil if the reader does not know its kind.
        private static func frame(_ data: Data) -> CoefficientFrame? {
            guard var start = CodingSegments.first(of: data) else { return nil }
            var segments = CodingSegments()
            while segments.frame == nil, let segment = CodingSegments.segment(of: data, at: start) {
                guard segments.take(segment.marker, segment.body) else { return nil }
                start = segment.end
            }
            return segments.frame
        }

        /// The needed scans of a progressive file, as one of its own.
        private static func part(_ data: Data, _ needs: JPEGScanNeeds) -> Data? {
            let prefix = data.withUnsafeBytes { JPEGScanPrefix($0, for: needs) }
            return prefix.map { data.prefix($0.count) + Data([0xFF, EntropyData.endOfImage]) }
        }

        private struct Expected {
            let coefficients: [Int16]?
        }

        /// - Returns: nil if the file is too large to compare; no coefficients if libjpeg warns or cannot read it.
        private static func expected(_ data: Data, _ frame: CoefficientFrame) -> Expected? {
            let blocks = frame.unitsAcross * frame.unitsDown * 6
            guard blocks * 4 <= limit else { return nil }
            var output = [Int16](repeating: 0, count: blocks * 4)
            var count = 0
            let file = Array(data)
            let warnings = megaton_low_coefficients(file, file.count, &output, output.count, &count)
            return Expected(coefficients: warnings == 0 ? Array(output.prefix(count)) : nil)
        }

        private static func means(_ coefficients: [Int16]) -> [Int16] {
            stride(from: 0, to: coefficients.count, by: 4).map { coefficients[$0] }
        }

        private static func coefficients(_ reader: LowCoefficientReader, _ parts: [LowCoefficientReader.Part])
            -> [Int16]
        {
            let length = parts.reduce(0) { $0 + $1.stride * $1.rows }
            return (0..<(length / 2)).map { index in
                Int16(truncatingIfNeeded: Int(reader.output[2 * index]) | Int(reader.output[2 * index + 1]) << 8)
            }
        }
    }

    extension CoefficientFrame {
        fileprivate var sampling: ChromaSampling {
            switch (components.count, components[0].across, components[0].down) {
            case (1, _, _): .gray
            case (_, 1, _): .s444
            case (_, _, 1): .s422
            default: .s420
            }
        }
    }

    extension BlockForm {
        fileprivate static func write(_ coefficient: Int, to output: inout MutableSpan<UInt8>, at start: Int) {
            output[start] = UInt8(truncatingIfNeeded: coefficient)
            output[start + 1] = UInt8(truncatingIfNeeded: coefficient >> 8)
        }
    }

    /// A block as its coefficients, two bytes each.
    private enum RawBlock: BlockForm {
        static let hasDetails = true
        static let width = 8
        static let height = 1

        static func write(
            _ block: LowCoefficients,
            times factors: LowCoefficients,
            to output: inout MutableSpan<UInt8>,
            at start: Int,
            stride: Int
        ) {
            for (index, value) in [block.mean, block.across, block.down, block.both].enumerated() {
                write(value, to: &output, at: start + 2 * index)
            }
        }
    }

    /// A block as its mean, two bytes.
    private enum RawMean: BlockForm {
        static let hasDetails = false
        static let width = 2
        static let height = 1

        static func write(
            _ block: LowCoefficients,
            times factors: LowCoefficients,
            to output: inout MutableSpan<UInt8>,
            at start: Int,
            stride: Int
        ) {
            write(block.mean, to: &output, at: start)
        }
    }
#endif
