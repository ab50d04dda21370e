internal import Foundation

/// ThumbHash: a blurred placeholder of an image in at most 25 bytes, in the format that Evan Wallace published
/// (https://evanw.github.io/thumbhash/).
///
/// The image is composed over its average color and converted to luminance, yellow against blue, and red against green.
/// Of each channel, the hash has the low frequencies of a cosine transform: the constant term, a scale, and four bits
/// for each other term.
enum ThumbHash {
    /// Longest hash, in bytes.
    static let maximumSize = 25
    /// Terms of a channel that are all smaller than this are noise of the calculation: the image is of one color. No
    /// decoder shows them, as the smallest scale that a hash can have is 1/63.
    private static let noise: Float = 1e-4

    static func encode(_ image: SmallImage) -> [UInt8] {
        let channels = Channels(image)
        let (width, height, hasAlpha) = (image.width, image.height, channels.hasAlpha)
        let longest = Float(max(width, height))
        // Fewer terms of luminance leave room for alpha.
        let limit: Float = hasAlpha ? 5 : 7
        let across = max(1, Int((limit * Float(width) / longest).rounded()))
        let down = max(1, Int((limit * Float(height) / longest).rounded()))
        let waves = Waves(image)
        let l = Terms(channels.luminance, waves, max(3, across), max(3, down))
        let p = Terms(channels.yellowBlue, waves, 3, 3)
        let q = Terms(channels.redGreen, waves, 3, 3)

        let isLandscape = width > height
        var first = bits(63, l.constant) | bits(31.5, p.constant + 1) << 6 | bits(31.5, q.constant + 1) << 12
        first |= bits(31, l.scale) << 18 | (hasAlpha ? 1 << 23 : 0)
        var second = isLandscape ? down : across
        second |= bits(63, p.scale) << 3 | bits(63, q.scale) << 9 | (isLandscape ? 1 << 15 : 0)
        var hash = [first, first >> 8, first >> 16, second, second >> 8].map { UInt8(truncatingIfNeeded: $0) }
        var terms = l.others + p.others + q.others
        if hasAlpha {
            let a = Terms(channels.alpha, waves, 5, 5)
            hash.append(UInt8(truncatingIfNeeded: bits(15, a.constant) | bits(15, a.scale) << 4))
            terms += a.others
        }
        for start in stride(from: 0, to: terms.count, by: 2) {
            let high = start + 1 < terms.count ? bits(15, terms[start + 1]) << 4 : 0
            hash.append(UInt8(truncatingIfNeeded: bits(15, terms[start]) | high))
        }
        return hash
    }

    /// A value in units of `1 / steps`, rounded half up. Values are at most 1, except for the constants of color, which
    /// are at most 2 and have half as many steps.
    private static func bits(_ steps: Float, _ value: Float) -> Int {
        // A term that is zero lies between two steps: noise of the calculation must not choose one.
        Int((max(0, steps * value) + 0.5 + noise).rounded(.down))
    }

    /// The four channels of an image, 0 to 1.
    private struct Channels {
        private(set) var luminance: [Float]
        private(set) var yellowBlue: [Float]
        private(set) var redGreen: [Float]
        private(set) var alpha: [Float]
        let hasAlpha: Bool

        init(_ image: SmallImage) {
            let count = image.width * image.height
            let average = Average(image)
            hasAlpha = average.opacity < count * 255
            luminance = [Float](repeating: 0, count: count)
            (yellowBlue, redGreen) = (luminance, luminance)
            alpha = hasAlpha ? luminance : []
            image.pixels.withUnsafeBufferPointer { pixels in
                for index in 0..<count {
                    var red = Float(pixels[4 * index]) / 255
                    var green = Float(pixels[4 * index + 1]) / 255
                    var blue = Float(pixels[4 * index + 2]) / 255
                    if hasAlpha {
                        let opacity = Float(pixels[4 * index + 3]) / 255
                        red = average.red * (1 - opacity) + opacity * red
                        green = average.green * (1 - opacity) + opacity * green
                        blue = average.blue * (1 - opacity) + opacity * blue
                        alpha[index] = opacity
                    }
                    luminance[index] = (red + green + blue) / 3
                    yellowBlue[index] = (red + green) / 2 - blue
                    redGreen[index] = red - green
                }
            }
        }
    }

    /// The average color of an image, 0 to 1, and the sum of its alpha, 255 for each opaque pixel.
    private struct Average {
        private(set) var (red, green, blue): (Float, Float, Float) = (0, 0, 0)
        private(set) var opacity = 0

        init(_ image: SmallImage) {
            var sums = (red: 0, green: 0, blue: 0)
            image.pixels.withUnsafeBufferPointer { pixels in
                for start in stride(from: 0, to: pixels.count, by: 4) {
                    let alpha = Int(pixels[start + 3])
                    sums.red &+= alpha &* Int(pixels[start])
                    sums.green &+= alpha &* Int(pixels[start + 1])
                    sums.blue &+= alpha &* Int(pixels[start + 2])
                    opacity &+= alpha
                }
            }
            if opacity == 0 { return }
            let whole = Float(opacity) * 255
            (red, green, blue) = (Float(sums.red) / whole, Float(sums.green) / whole, Float(sums.blue) / whole)
        }
    }

    /// Cosines of the transform, for each frequency and position.
    private struct Waves {
        /// Frequencies that a hash may have.
        static let count = 7

        let across: [Float]
        let down: [Float]
        let width: Int
        let height: Int

        init(_ image: SmallImage) {
            (width, height) = (image.width, image.height)
            across = Self.all.indices.contains(width) ? Self.all[width] : Self.waves(width)
            down = Self.all.indices.contains(height) ? Self.all[height] : Self.waves(height)
        }

        /// By length, for all lengths that a sampled image may have.
        private static let all = (0...SmallImage.longestSide).map(waves)

        /// By the recurrence cos(kx) = 2 cos(x) cos((k - 1)x) - cos((k - 2)x), as cosines take long to compute.
        private static func waves(_ length: Int) -> [Float] {
            var waves = [Float](repeating: 1, count: count * length)
            for position in 0..<length {
                let first = cos(.pi / Float(length) * (Float(position) + 0.5))
                waves[length + position] = first
                for frequency in 2..<count {
                    waves[frequency * length + position] =
                        2 * first * waves[(frequency - 1) * length + position]
                        - waves[(frequency - 2) * length + position]
                }
            }
            return waves
        }
    }

    /// The low frequencies of a channel.
    private struct Terms {
        private(set) var constant: Float = 0
        /// The largest of the other terms.
        private(set) var scale: Float = 0
        /// The other terms, from 0 to 1: 0.5 is none.
        private(set) var others: [Float] = []

        /// - Parameters:
        ///   - across: Frequencies along a row.
        ///   - down: Frequencies along a column. Only the half with the lowest sums is in the hash.
        init(_ channel: [Float], _ waves: Waves, _ across: Int, _ down: Int) {
            let (width, height) = (waves.width, waves.height)
            var columns = [Float](repeating: 0, count: width)
            for vertical in 0..<down {
                Self.sum(channel, waves.down[(vertical * height)..<((vertical + 1) * height)], into: &columns)
                var horizontal = 0
                while horizontal * down < across * (down - vertical) {
                    var sum: Float = 0
                    for x in 0..<width { sum += columns[x] * waves.across[horizontal * width + x] }
                    sum /= Float(width * height)
                    if vertical == 0 && horizontal == 0 {
                        constant = sum
                    } else {
                        others.append(sum)
                        scale = max(scale, abs(sum))
                    }
                    horizontal += 1
                }
            }
            if scale < noise {
                scale = 0
                for index in others.indices { others[index] = 0 }
            } else {
                for index in others.indices { others[index] = 0.5 + 0.5 / scale * others[index] }
            }
        }

        /// Sums each column, weighted by a wave: neighbors are added at a time.
        private static func sum(_ channel: [Float], _ wave: ArraySlice<Float>, into columns: inout [Float]) {
            channel.withUnsafeBufferPointer { channel in
                columns.withUnsafeMutableBufferPointer { columns in
                    for x in columns.indices { columns[x] = 0 }
                    for (y, weight) in wave.enumerated() {
                        let start = y * columns.count
                        let row = UnsafeBufferPointer(rebasing: channel[start..<(start + columns.count)])
                        for x in columns.indices { columns[x] += row[x] * weight }
                    }
                }
            }
        }
    }
}
