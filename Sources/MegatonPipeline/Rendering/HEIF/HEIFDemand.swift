internal import Foundation

/// The memory and work that the image of a HEIF or AVIF file needs, from its boxes and the headers of its streams.
struct HEIFDemand: Sendable, Equatable {
    /// The largest of the sizes that its properties, its canvases and its streams say.
    var largest = PixelSize(width: 0, height: 0)
    /// The item that has it, for messages.
    var largestItem = ""
    /// The longest side of all of them.
    var longestSide = 0
    /// Pixels that are decoded, turned or copied, each as often as that happens.
    var work = 0
    /// Bytes that decoding takes at the most.
    var bytes = 0
    /// Sizes that do not agree with each other.
    var lie: String?
    /// Memory that is out of proportion to the image.
    var excess: String?

    /// - Throws: `.corruptImage` for a file that is cut short, damaged or contradicts itself; `.headerTooLarge`,
    ///   `.imageTooLarge`; `.unsupportedFormat` for images of other codecs.
    init(_ data: Data) throws(ImagePipeline.Error) {
        let result: Result<HEIFDemand, ImagePipeline.Error> = data.withUnsafeBytes { bytes in
            do throws(ImagePipeline.Error) {
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
