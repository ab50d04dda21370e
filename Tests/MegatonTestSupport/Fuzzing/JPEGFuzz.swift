#if DEBUG || MEGATON_FUZZ
    public import Foundation

    /// Untrusted JPEGs, baseline and progressive: `LowCoefficientReader` has the coefficients of libjpeg, or leaves the
    /// file to it, as it does with all damage.
    public struct JPEGFuzz: FuzzTarget {
        public let name = "jpeg"
        /// Texts cannot have the bytes of markers.
        public let words: [String] = ["JFIF\0", "Adobe", "\0\u{3F}\0"]
        public let seeds: [[UInt8]]

        /// - Parameter files: further small images; only JPEGs are used.
        public init(files: [Data] = []) {
            var random = SeededGenerator(seed: 1)
            let made = (0..<12).map { _ in BaselineJPEG.random(upTo: 40, using: &random) }
            let progressive = made.compactMap { ProgressiveJPEG.random(of: $0, using: &random) }
            seeds = made.map(\.bytes) + progressive + files.map { Array($0) }.filter { $0.starts(with: [0xFF, 0xD8]) }
        }

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let image = BaselineJPEG.random(upTo: 24, using: &random)
            if random.once(in: 2), let file = ProgressiveJPEG.random(of: image, using: &random) { return file }
            return image.bytes
        }

        public func check(_ input: [UInt8]) throws {
            guard let read = LowCoefficientsOfFile(input) else { return }
            try promise(read.hasSameMeans, "the means alone are others")
            guard let found = read.found else { return }
            try promise(read.expected != nil, "libjpeg finds damage")
            try promise(read.expected == found, "libjpeg has other coefficients")
        }
    }
#endif
