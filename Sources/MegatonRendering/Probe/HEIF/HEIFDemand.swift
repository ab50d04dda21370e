package import Foundation

/// The memory and work that decoding a HEIF or AVIF file needs, from its boxes and the headers of its streams.
package struct HEIFDemand: Sendable, Equatable {
    /// The largest size that its properties, canvases and streams declare.
    package var largest = PixelSize(width: 0, height: 0)
    /// The item of that size, for messages.
    var largestItem = ""
    /// The longest side among all of these sizes.
    package var longestSide = 0
    /// Pixels that are decoded, rotated or copied, counted each time.
    package var work = 0
    /// Peak memory of decoding, in bytes.
    package var bytes = 0
    /// Describes sizes that contradict each other, if there are any.
    package var lie: String?
    /// Describes memory use out of proportion to the image, if that is so.
    var excess: String?

    /// - Throws: `.corruptImage` for a file that is truncated, damaged or contradicts itself; `.headerTooLarge`,
    ///   `.imageTooLarge`; `.unsupportedFormat` for images of other codecs.
    package init(_ data: Data) throws(ImageError) {
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

    package init() {}
}

extension AssetType {
    package var isHEIF: Bool { self == .avif || self == .heic }
}
