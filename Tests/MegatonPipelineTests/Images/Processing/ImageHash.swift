import Foundation
import MegatonPipeline

/// The look of an image in one line: its size, its mean color, and a perceptual hash on white and on black, which
/// differ if the image is transparent.
///
/// The hash has a bit for each of the 64 lowest frequencies (DCT) of a gray 32x32 thumbnail: it survives other rounding
/// and another resampler, but not another image. It ignores brightness, hence the mean color. It is computed without
/// libvips, the subject of the tests.
struct ImageHash: Hashable, CustomStringConvertible {
    let width: Int
    let height: Int
    let bands: Int
    /// Mean of red, green and blue, on white.
    let mean: [Int]
    let onWhite: UInt64
    let onBlack: UInt64

    init(_ image: PlatformImage) {
        (width, height, bands) = (image.size.width, image.size.height, image.bands)
        let pixels = [UInt8](image.pixels())
        let (white, mean) = Self.thumbnail(pixels, image, background: 255)
        self.mean = mean.map { Int($0.rounded()) }
        onWhite = Self.hash(white)
        onBlack = image.hasAlpha ? Self.hash(Self.thumbnail(pixels, image, background: 0).grey) : onWhite
    }

    /// Parses `description`.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 4 else { return nil }
        let size = parts[0].split(separator: "x").compactMap { Int($0) }
        let mean = parts[1].split(separator: ",").compactMap { Int($0) }
        guard size.count == 3, mean.count == 3, let white = UInt64(parts[2], radix: 16),
            let black = UInt64(parts[3], radix: 16)
        else { return nil }
        (width, height, bands) = (size[0], size[1], size[2])
        (self.mean, onWhite, onBlack) = (mean, white, black)
    }

    var description: String {
        func hex(_ value: UInt64) -> String {
            let digits = String(value, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        let colour = mean.map(String.init).joined(separator: ",")
        return "\(width)x\(height)x\(bands) \(colour) \(hex(onWhite)) \(hex(onBlack))"
    }

    /// How many of the 64 bits differ, on the background on which more do.
    func distance(to other: ImageHash) -> Int {
        max((onWhite ^ other.onWhite).nonzeroBitCount, (onBlack ^ other.onBlack).nonzeroBitCount)
    }

    /// Whether the images have the same size and look the same to the eye.
    func looksLike(_ other: ImageHash) -> Bool {
        (width, height, bands) == (other.width, other.height, other.bands) && distance(to: other) <= 5
            && zip(mean, other.mean).allSatisfy { abs($0 - $1) <= 3 }
    }

    // MARK: - Thumbnail

    private static let side = 32

    /// The mean of the pixels that begin in each of the 32x32 parts; in small images the one pixel that is there.
    private static func thumbnail(
        _ pixels: [UInt8],
        _ image: PlatformImage,
        background: Double
    ) -> (grey: [Double], mean: [Double]) {
        let (width, height, bands) = (image.size.width, image.size.height, image.bands)
        var grey = [Double](repeating: 0, count: side * side)
        var total = [0.0, 0, 0]
        for row in 0..<side {
            let rows = row * height / side..<max(row * height / side + 1, (row + 1) * height / side)
            for column in 0..<side {
                let columns = column * width / side..<max(column * width / side + 1, (column + 1) * width / side)
                var sum = [0.0, 0, 0]
                for y in rows {
                    for x in columns {
                        let start = (y * width + x) * bands
                        let alpha = bands % 2 == 0 ? Double(pixels[start + bands - 1]) / 255 : 1
                        for colour in 0..<3 {
                            let value = Double(pixels[start + (bands > 2 ? colour : 0)])
                            sum[colour] += value * alpha + background * (1 - alpha)
                        }
                    }
                }
                let count = Double(rows.count * columns.count)
                for colour in 0..<3 {
                    sum[colour] /= count
                    total[colour] += sum[colour] / Double(side * side)
                }
                grey[row * side + column] = 0.2126 * sum[0] + 0.7152 * sum[1] + 0.0722 * sum[2]
            }
        }
        return (grey, total)
    }

    // MARK: - Hash

    private static let cosines: [[Double]] = (0..<8).map { frequency in
        (0..<side).map { cos(Double.pi / Double(side) * (Double($0) + 0.5) * Double(frequency)) }
    }

    private static func hash(_ grey: [Double]) -> UInt64 {
        var frequencies: [Double] = []
        for vertical in cosines {
            for horizontal in cosines {
                var sum = 0.0
                for y in 0..<side {
                    for x in 0..<side { sum += grey[y * side + x] * vertical[y] * horizontal[x] }
                }
                frequencies.append(sum / Double(side * side))
            }
        }
        // The first is the mean. The sign of an almost zero frequency is noise, so such a frequency counts as zero.
        frequencies[0] = 0
        let median = frequencies.sorted()[32]
        return frequencies.enumerated().reduce(0) { bits, item in
            item.element > median + 0.1 ? bits | 1 << UInt64(item.offset) : bits
        }
    }
}
