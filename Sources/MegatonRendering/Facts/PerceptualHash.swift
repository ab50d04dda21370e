internal import Foundation

/// A 64-bit hash of how an image looks: images that differ in size, format or compression only have hashes that differ
/// in few bits.
///
/// The usual hash by a cosine transform: luminance at 32x32 pixels, its transform, and a bit for each of the 8x8 lowest
/// frequencies, set if the term is above the median. Bits are in the order of rows, the highest one first.
enum PerceptualHash {
    private static let side = 32
    private static let frequencies = 8

    /// Cosines for each frequency and position.
    private static let waves: [Float] = (0..<frequencies).flatMap { frequency in
        (0..<side).map { cos(.pi * Float(frequency) * (Float($0) + 0.5) / Float(side)) }
    }

    static func hash(_ image: SmallImage) -> UInt64 {
        let luminance = luminance(image)
        // Columns of the transform first, then rows.
        var vertical = [Float](repeating: 0, count: side)
        var terms: [Float] = []
        terms.reserveCapacity(frequencies * frequencies)
        for row in 0..<frequencies {
            for x in 0..<side { vertical[x] = 0 }
            for y in 0..<side { add(luminance, row: y, times: waves[row * side + y], to: &vertical) }
            for column in 0..<frequencies {
                var sum: Float = 0
                for x in 0..<side { sum += vertical[x] * waves[column * side + x] }
                // Terms that are only noise of the calculation are equal, so that they do not differ between machines.
                terms.append((sum * 16).rounded() / 16)
            }
        }
        let sorted = terms.sorted()
        let median = (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
        return terms.reduce(0) { $0 << 1 | ($1 > median ? 1 : 0) }
    }

    /// Luminance (ITU-R BT.601) on white at 32x32 pixels, each the average of the area that it covers.
    private static func luminance(_ image: SmallImage) -> [Float] {
        let (width, height) = (image.width, image.height)
        let (across, down) = (Parts.of(width), Parts.of(height))
        var row = [Float](repeating: 0, count: width)
        var narrow = [Float](repeating: 0, count: side * height)
        image.pixels.withUnsafeBufferPointer { pixels in
            for y in 0..<height {
                for x in 0..<width {
                    let start = 4 * (y * width + x)
                    let (red, green, blue) = (Float(pixels[start]), Float(pixels[start + 1]), Float(pixels[start + 2]))
                    let alpha = Float(pixels[start + 3]) / 255
                    row[x] = (0.299 * red + 0.587 * green + 0.114 * blue) * alpha + 255 * (1 - alpha)
                }
                narrow.withUnsafeMutableBufferPointer { narrow in
                    let start = y * side
                    for part in across { narrow[start &+ part.result] += row[part.place] * part.weight }
                }
            }
        }
        var result = [Float](repeating: 0, count: side * side)
        for part in down {
            result.withUnsafeMutableBufferPointer { result in
                let start = part.result * side
                let target = UnsafeMutableBufferPointer(rebasing: result[start..<(start + side)])
                for x in 0..<side { target[x] += narrow[part.place * side + x] * part.weight }
            }
        }
        return result
    }

    private static func add(_ rows: [Float], row: Int, times weight: Float, to sums: inout [Float]) {
        rows.withUnsafeBufferPointer { rows in
            sums.withUnsafeMutableBufferPointer { sums in
                let row = UnsafeBufferPointer(rebasing: rows[(row * side)..<((row + 1) * side)])
                for x in 0..<side { sums[x] += row[x] * weight }
            }
        }
    }

    /// Samples of one axis that each of 32 results covers, with weights whose sum is 1 for each result.
    private enum Parts {
        /// By length, for all lengths that a sampled image may have.
        private static let all = (0...SmallImage.longestSide).map { $0 == 0 ? [] : parts($0) }

        static func of(_ length: Int) -> [(result: Int, place: Int, weight: Float)] {
            all.indices.contains(length) ? all[length] : parts(length)
        }

        private static func parts(_ length: Int) -> [(result: Int, place: Int, weight: Float)] {
            var parts: [(result: Int, place: Int, weight: Float)] = []
            for result in 0..<side {
                let (start, end) = (result * length, (result + 1) * length)
                for place in start / side...(end - 1) / side {
                    let overlap = min(end, (place + 1) * side) - max(start, place * side)
                    parts.append((result, place, Float(overlap) / Float(length)))
                }
            }
            return parts
        }
    }
}
