/// The color that most of an image has: not an average, which may be a color that is nowhere in it.
enum DominantColor {
    /// Bits of a channel by which the first step distinguishes colors.
    private static let bits = 3
    /// Distance, squared, up to which pixels have the same color: a cell of the first step may cut a color in two.
    private static let reach = 48 * 48

    /// - Returns: nil if the image is transparent.
    static func color(of image: SmallImage) -> Color? {
        let cells = 1 << (3 * bits)
        var sums = [Int32](repeating: 0, count: cells * 4)
        sums.withUnsafeMutableBufferPointer { sums in
            each(image) { red, green, blue in
                let cell = (red >> (8 - bits)) << (2 * bits) | (green >> (8 - bits)) << bits | blue >> (8 - bits)
                sums[Int(4 * cell)] &+= red
                sums[Int(4 * cell + 1)] &+= green
                sums[Int(4 * cell + 2)] &+= blue
                sums[Int(4 * cell + 3)] &+= 1
            }
        }
        var best = 0
        for cell in 1..<cells where sums[4 * cell + 3] > sums[4 * best + 3] { best = cell }
        let count = sums[4 * best + 3]
        if count == 0 { return nil }
        let center = (sums[4 * best] / count, sums[4 * best + 1] / count, sums[4 * best + 2] / count)
        var near: (red: Int32, green: Int32, blue: Int32, count: Int32) = (0, 0, 0, 0)
        each(image) { red, green, blue in
            let (x, y, z) = (red - center.0, green - center.1, blue - center.2)
            if x * x + y * y + z * z > reach { return }
            near = (near.red &+ red, near.green &+ green, near.blue &+ blue, near.count &+ 1)
        }
        func mean(_ sum: Int32, _ fallback: Int32) -> UInt8 {
            UInt8(near.count == 0 ? fallback : (sum + near.count / 2) / near.count)
        }
        return Color(
            red: mean(near.red, center.0),
            green: mean(near.green, center.1),
            blue: mean(near.blue, center.2)
        )
    }

    /// Calls the body with the color of each pixel that is at least half opaque.
    @inline(__always)
    private static func each(_ image: SmallImage, _ body: (_ red: Int32, _ green: Int32, _ blue: Int32) -> Void) {
        image.pixels.withUnsafeBufferPointer { pixels in
            for start in stride(from: 0, to: pixels.count, by: 4) where pixels[start + 3] >= 128 {
                body(Int32(pixels[start]), Int32(pixels[start + 1]), Int32(pixels[start + 2]))
            }
        }
    }
}
