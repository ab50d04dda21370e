/// The whole source at 48 pixels or less, upright and in sRGB, from which facts about its pixels are computed.
///
/// It is sampled from pixels that a render has in hand: the decoded planes, or the rows that pass by.
struct SmallImage: Sendable, Equatable {
    /// Longest side of a sampled image, in pixels.
    static let longestSide = 48
    /// Samples that are averaged for a pixel, along each axis. More would take time and change nothing that is seen.
    static let taps = 4

    let width: Int
    let height: Int
    /// Red, green, blue and alpha of each pixel, rows from the top. Alpha is not premultiplied.
    let pixels: [UInt8]

    /// - Parameter pixels: Four bytes for each pixel.
    /// - Returns: nil if the number of bytes does not match the size.
    init?(width: Int, height: Int, pixels: [UInt8]) {
        guard width > 0, height > 0, pixels.count == width * height * 4 else { return nil }
        self.init(PixelSize(width: width, height: height), pixels)
    }

    /// - Parameter pixels: four bytes for each pixel of the size.
    init(_ size: PixelSize, _ pixels: [UInt8]) {
        (width, height) = (size.width, size.height)
        self.pixels = pixels
    }

    /// The size at which a source of this size is sampled.
    static func size(of source: PixelSize) -> PixelSize {
        let longest = max(source.width, source.height)
        if longest <= longestSide { return PixelSize(width: max(1, source.width), height: max(1, source.height)) }
        func side(_ length: Int) -> Int { max(1, (length * longestSide + longest / 2) / longest) }
        return PixelSize(width: side(source.width), height: side(source.height))
    }

    /// Samples rows of pixels with one to four interleaved bands: gray, gray and alpha, RGB, RGB and alpha.
    ///
    /// - Parameters:
    ///   - bytes: Rows from the top without gaps.
    ///   - sampled: Size of these rows.
    ///   - size: Size of the result.
    init(_ bytes: UnsafePointer<UInt8>, _ sampled: PixelSize, bands: Int, to size: PixelSize) {
        let across = Taps(from: sampled.width, to: size.width, atMost: Self.taps)
        let down = Taps(from: sampled.height, to: size.height, atMost: Self.taps)
        let rowBytes = sampled.width * bands
        if bands == 2 || bands == 4 {
            self.init(size, Self.weighted(bytes, rowBytes: rowBytes, bands: bands, across, down))
            return
        }
        let averages = Self.average(bytes, rowBytes: rowBytes, width: sampled.width, bands: bands, across, down)
        var pixels = [UInt8](repeating: 255, count: size.width * size.height * 4)
        for index in 0..<(size.width * size.height) {
            for band in 0..<3 { pixels[4 * index + band] = averages[index * bands + min(band, bands - 1)] }
        }
        self.init(size, pixels)
    }

    /// The same image, turned upright.
    func turned(_ orientation: EXIFOrientation) -> SmallImage {
        let size = orientation.turned(PixelSize(width: width, height: height))
        var upright = [UInt8](repeating: 0, count: pixels.count)
        for row in 0..<size.height {
            for column in 0..<size.width {
                var (x, y) = orientation.swapsAxes ? (row, column) : (column, row)
                if orientation.mirrorsColumns { x = width - 1 - x }
                if orientation.mirrorsRows { y = height - 1 - y }
                let (source, target) = (4 * (y * width + x), 4 * (row * size.width + column))
                for band in 0..<4 { upright[target + band] = pixels[source + band] }
            }
        }
        return SmallImage(size, upright)
    }

    // MARK: - Sampling

    /// Samples of one axis that are averaged: the same number for each result.
    struct Taps {
        let results: Int
        let count: Int
        /// Positions in the source, `count` for each result.
        let positions: [Int]

        init(from length: Int, to results: Int, atMost most: Int) {
            let count = min(most, max(1, length / results))
            self.results = results
            self.count = count
            var positions: [Int] = []
            positions.reserveCapacity(results * count)
            for result in 0..<results {
                let start = result * length / results
                let covered = max(1, (result + 1) * length / results - start)
                for tap in 0..<count { positions.append(start + (2 * tap + 1) * covered / (2 * count)) }
            }
            self.positions = positions
        }
    }

    /// Averages each band by itself.
    ///
    /// - Returns: The bands of each result, interleaved as in the source.
    static func average(
        _ bytes: UnsafePointer<UInt8>,
        rowBytes: Int,
        width: Int,
        bands: Int,
        _ across: Taps,
        _ down: Taps
    ) -> [UInt8] {
        let count = across.count * down.count
        // A product and a shift take the place of a division for each result; sums are at most 16 * 255.
        let reciprocal = UInt32(1 << 20 / count + 1)
        let total = across.results * down.results * bands
        var sums = [UInt16](repeating: 0, count: width * bands)
        return [UInt8](unsafeUninitializedCapacity: total) { out, initialized in
            sums.withUnsafeMutableBufferPointer { sums in
                across.positions.withUnsafeBufferPointer { positions in
                    for row in 0..<down.results {
                        // Whole rows first: neighbors are added at a time.
                        let taps = down.positions[(row * down.count)..<((row + 1) * down.count)]
                        add(taps.map { bytes + $0 * rowBytes }, to: sums)
                        let out = UnsafeMutableBufferPointer(rebasing: out[(row &* total / down.results)...])
                        if bands == 1 && across.count == 4 {
                            divideFours(of: sums, at: positions, count / 2, reciprocal, into: out)
                            continue
                        }
                        var place = 0
                        for first in stride(from: 0, to: positions.count, by: across.count) {
                            for band in 0..<bands {
                                var sum = UInt32(count / 2)
                                for tap in first..<(first &+ across.count) {
                                    sum &+= UInt32(sums[positions[tap] &* bands &+ band])
                                }
                                out[place] = UInt8(truncatingIfNeeded: (sum &* reciprocal) >> 20)
                                place &+= 1
                            }
                        }
                    }
                }
            }
            initialized = total
        }
    }

    /// Adds rows up. Four of them, as all but small images have, are one loop.
    private static func add(_ rows: [UnsafePointer<UInt8>], to sums: UnsafeMutableBufferPointer<UInt16>) {
        if rows.count == 4 {
            let (a, b, c, d) = (rows[0], rows[1], rows[2], rows[3])
            for x in sums.indices { sums[x] = UInt16(a[x]) &+ UInt16(b[x]) &+ UInt16(c[x]) &+ UInt16(d[x]) }
            return
        }
        for x in sums.indices { sums[x] = 0 }
        for row in rows {
            for x in sums.indices { sums[x] &+= UInt16(row[x]) }
        }
    }

    /// The averages of one band with four samples each, as in all but small images.
    private static func divideFours(
        of sums: UnsafeMutableBufferPointer<UInt16>,
        at positions: UnsafeBufferPointer<Int>,
        _ rounding: Int,
        _ reciprocal: UInt32,
        into out: UnsafeMutableBufferPointer<UInt8>
    ) {
        var first = 0
        for result in 0..<(positions.count / 4) {
            let (a, b) = (sums[positions[first]], sums[positions[first &+ 1]])
            let (c, d) = (sums[positions[first &+ 2]], sums[positions[first &+ 3]])
            let sum = UInt32(rounding) &+ UInt32(a) &+ UInt32(b) &+ UInt32(c) &+ UInt32(d)
            out[result] = UInt8(truncatingIfNeeded: (sum &* reciprocal) >> 20)
            first &+= 4
        }
    }

    /// Averages pixels with alpha, so that colors of transparent pixels have no effect.
    private static func weighted(
        _ bytes: UnsafePointer<UInt8>,
        rowBytes: Int,
        bands: Int,
        _ across: Taps,
        _ down: Taps
    ) -> [UInt8] {
        let (green, blue) = bands == 4 ? (1, 2) : (0, 0)
        var pixels = [UInt8](repeating: 0, count: across.results * down.results * 4)
        for row in 0..<down.results {
            for column in 0..<across.results {
                var (red, greens, blues, alpha) = (0, 0, 0, 0)
                for y in down.positions[(row * down.count)..<((row + 1) * down.count)] {
                    for x in across.positions[(column * across.count)..<((column + 1) * across.count)] {
                        let pixel = bytes + y * rowBytes + x * bands
                        let weight = Int(pixel[bands - 1])
                        red += weight * Int(pixel[0])
                        greens += weight * Int(pixel[green])
                        blues += weight * Int(pixel[blue])
                        alpha += weight
                    }
                }
                if alpha == 0 { continue }
                let (place, count) = (4 * (row * across.results + column), across.count * down.count)
                for (band, sum) in [(0, red), (1, greens), (2, blues)] {
                    pixels[place + band] = UInt8(truncatingIfNeeded: (sum + alpha / 2) / alpha)
                }
                pixels[place + 3] = UInt8(truncatingIfNeeded: (alpha + count / 2) / count)
            }
        }
        return pixels
    }

    /// RGB and alpha of luma, or of Y, Cb and Cr (JFIF 1.02), with 16 bits after the point.
    static func converted(_ planes: [[UInt8]]) -> [UInt8] {
        let count = planes[0].count
        // Without color, both chroma planes are in the middle.
        let middle = planes.count < 3 ? [UInt8](repeating: 128, count: count) : []
        let (blues, reds) = planes.count < 3 ? (middle, middle) : (planes[1], planes[2])
        return [UInt8](unsafeUninitializedCapacity: count * 4) { out, initialized in
            planes[0].withUnsafeBufferPointer { luma in
                blues.withUnsafeBufferPointer { blues in
                    reds.withUnsafeBufferPointer { reds in
                        for index in 0..<count {
                            let y = Int32(luma[index]) << 16 + 1 << 15
                            let (blue, red) = (Int32(blues[index]) - 128, Int32(reds[index]) - 128)
                            out[4 * index] = clamped(y &+ 91_881 &* red)
                            out[4 * index + 1] = clamped(y &- 22_554 &* blue &- 46_802 &* red)
                            out[4 * index + 2] = clamped(y &+ 116_130 &* blue)
                            out[4 * index + 3] = 255
                        }
                    }
                }
            }
            initialized = count * 4
        }
    }

    private static func clamped(_ value: Int32) -> UInt8 { UInt8(truncatingIfNeeded: min(255, max(0, value >> 16))) }
}
