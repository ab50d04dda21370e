#if DEBUG || MEGATON_FUZZ
    internal import CCoefficients

    /// Progressive JPEGs with scans of all kinds, which libjpeg writes.
    public enum ProgressiveJPEG {
        /// The coefficients of a baseline JPEG in scans at random.
        ///
        /// - Returns: nil if libjpeg refuses the file.
        public static func random(of image: BaselineJPEG, using random: inout SeededGenerator) -> [UInt8]? {
            let scans = scans(image.components, using: &random)
            let restartInterval = random.once(in: 2) ? UInt32.random(in: 1...9, using: &random) : 0
            let file = image.bytes
            var (output, count) = ([UInt8](repeating: 0, count: 3 * file.count + 65_536), 0)
            let result = megaton_progressive_jpeg(
                file,
                file.count,
                scans,
                Int32(scans.count),
                restartInterval,
                &output,
                output.count,
                &count
            )
            return result == 0 ? Array(output.prefix(count)) : nil
        }

        /// An order of scans that libjpeg accepts: the means first, bands of each component, and then the bits that
        /// these have left.
        private static func scans(_ components: Int, using random: inout SeededGenerator) -> [megaton_scan] {
            let missing = Int32.random(in: 0...2, using: &random)
            let all: [Int32] = components == 1 || random.once(in: 3) ? (0..<Int32(components)).map { $0 } : [-1]
            let means = all.map {
                megaton_scan(component: $0, first: 0, last: 0, bits_before: 0, missing_bits: missing)
            }
            var bands: [megaton_scan] = []
            for component in 0..<Int32(components) {
                var first: Int32 = 1
                while first < 64 {
                    let last = random.once(in: 2) ? 63 : Int32.random(in: first...63, using: &random)
                    let left = Int32.random(in: 0...3, using: &random)
                    bands.append(
                        megaton_scan(component: component, first: first, last: last, bits_before: 0, missing_bits: left)
                    )
                    first = last + 1
                }
            }
            var bits: [megaton_scan] = []
            for scan in (means + bands).shuffled(using: &random) {
                for left in (0..<scan.missing_bits).reversed() {
                    var next = scan
                    (next.bits_before, next.missing_bits) = (left + 1, left)
                    bits.append(next)
                }
            }
            // The next bit of the means may come before the bands.
            let ofMeans = random.once(in: 2) ? bits.filter { $0.first == 0 } : []
            let others = ofMeans.isEmpty ? bits : bits.filter { $0.first > 0 }
            return means + ofMeans + bands.shuffled(using: &random) + others
        }
    }
#endif
