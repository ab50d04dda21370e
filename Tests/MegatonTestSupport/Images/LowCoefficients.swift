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

        /// - Returns: nil if the file is no baseline JPEG, or too large to compare.
        public init?(_ file: [UInt8]) {
            let data = Data(file)
            guard let header = BaselineHeader(data) else { return nil }
            let blocks = header.unitsAcross * header.unitsDown * 6
            guard blocks * 4 <= Self.limit else { return nil }
            var output = [Int16](repeating: 0, count: blocks * 4)
            var count = 0
            let warnings = megaton_low_coefficients(file, file.count, &output, output.count, &count)
            expected = warnings == 0 ? Array(output.prefix(count)) : nil
            var reader = LowCoefficientReader()
            let size = PixelSize(width: header.width, height: header.height)
            let sampling: ChromaSampling =
                switch (header.components.count, header.components[0].across, header.components[0].down) {
                case (1, _, _): .gray
                case (_, 1, _): .s444
                case (_, _, 1): .s422
                default: .s420
                }
            let parts = reader.read(data, of: size, sampling, as: RawBlock.self)
            let coefficients = parts.map { Self.coefficients(reader, $0) }
            found = coefficients
            let ofMeans = reader.read(data, of: size, sampling, as: RawMean.self)
            let means = ofMeans.map { Self.coefficients(reader, $0) }
            hasSameMeans = means == coefficients.map { all in stride(from: 0, to: all.count, by: 4).map { all[$0] } }
            // The form with four samples reads the same data.
            _ = reader.read(data, of: size, sampling, as: QuarterBlock.self)
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
