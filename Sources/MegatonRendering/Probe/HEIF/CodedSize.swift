/// The size and sample format of the images of an AV1 or HEVC stream, from its headers.
struct CodedSize: Equatable {
    /// Size of the largest image as displayed.
    var shown = PixelSize(width: 0, height: 0)
    /// Size of the largest image as held in memory.
    var coded = PixelSize(width: 0, height: 0)
    /// Images of the stream, including hidden ones.
    var frames = 0
    /// Samples for each pixel: 1 for gray, 1.5 to 3 for color.
    var samples = 0.0
    /// Bits of a sample.
    var depth = 0

    /// Bytes of a sample.
    var sampleBytes: Int { depth > 8 ? 2 : 1 }

    mutating func add(shown: PixelSize, coded: PixelSize, samples: Double, depth: Int) {
        self.shown.grow(to: shown)
        self.coded.grow(to: coded)
        self.samples = max(self.samples, samples)
        self.depth = max(self.depth, depth)
    }
}

extension PixelSize {
    /// Extends both sides to at least those of the other size.
    package mutating func grow(to other: PixelSize) {
        self = PixelSize(width: max(width, other.width), height: max(height, other.height))
    }
}
