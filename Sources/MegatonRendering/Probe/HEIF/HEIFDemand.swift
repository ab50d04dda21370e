internal import Foundation

/// The memory and work that decoding a HEIF or AVIF file needs, from its boxes and the headers of its streams.
struct HEIFDemand: Sendable, Equatable {
    /// The largest size that its properties, canvases and streams declare.
    var largest = PixelSize(width: 0, height: 0)
    /// The item of that size, for messages.
    var largestItem = ""
    /// The longest side among all of these sizes.
    var longestSide = 0
    /// Pixels that are decoded, rotated or copied, counted each time.
    var work = 0
    /// Peak memory of decoding, in bytes.
    var bytes = 0
    /// Describes sizes that contradict each other, if there are any.
    var lie: String?
    /// Describes memory use out of proportion to the image, if that is so.
    var excess: String?

    /// - Throws: `.corruptImage` for a file that is truncated, damaged or contradicts itself; `.headerTooLarge`,
    ///   `.imageTooLarge`; `.unsupportedFormat` for images of other codecs.
    init(_ data: Data) throws(ImageError) {
        let result: Result<HEIFDemand, ImageError> = data.withUnsafeBytes { bytes in
            do throws(ImageError) {
                let file = try HEIFFile(bytes)
                let kept = try file.checkCopies()
                var measure = HEIFMeasure(file)
                return .success(try measure.demand(metadata: kept))
            } catch {
                return .failure(error)
            }
        }
        self = try result.get()
    }

    init() {}
}

extension AssetType {
    var isHEIF: Bool { self == .avif || self == .heic }
}

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
    mutating func grow(to other: PixelSize) {
        self = PixelSize(width: max(width, other.width), height: max(height, other.height))
    }
}
