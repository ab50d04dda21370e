internal import Foundation

/// The search for the highest quality whose encoded image has at most `maxBytes`.
enum EncodedSize {
    /// Maximum of `maxBytes`.
    static let maximum = 1 << 30
    /// The lowest quality that is tried, unless the rendition asks for less.
    static let lowestQuality = 20
    /// Maximum number of encodings of one rendition.
    static let maximumEncodings = 5

    /// The image at the rendition's own quality, or at the highest one found by bisection.
    ///
    /// - Parameter encode: Encodes the same pixels at the quality of its argument.
    /// - Throws: `tooLarge` if the lowest quality has too many bytes, or the error of `encode`.
    static func fit<Failure: Error>(
        _ rendition: Rendition,
        tooLarge: (ImageError) -> Failure,
        _ encode: (Rendition) throws(Failure) -> Data
    ) throws(Failure) -> Data {
        let first = try encode(rendition)
        guard let limit = rendition.maxBytes, first.count > limit else { return first }
        var rendition = rendition
        let lowest = min(lowestQuality, rendition.quality)
        var (fits, exceeds) = (lowest, rendition.quality)
        var (best, smallest): (Data?, Int) = (nil, first.count)
        var left = maximumEncodings - 1
        while left > 0 {
            let middle = (fits + exceeds) / 2
            // The last encoding without a result so far must be of the lowest quality.
            rendition.quality = best == nil && left == 1 ? lowest : middle
            // No quality is left between the two, or the lowest one itself exceeds the limit.
            if exceeds == lowest || (best != nil && middle == fits) { break }
            let data = try encode(rendition)
            left -= 1
            if data.count <= limit {
                (best, fits) = (data, rendition.quality)
            } else {
                (exceeds, smallest) = (rendition.quality, min(smallest, data.count))
            }
        }
        if let best { return best }
        throw tooLarge(
            ImageError(
                .outputTooLarge,
                "\(rendition.name) has \(first.count) bytes, and \(smallest) at quality \(lowest), the lowest that is "
                    + "tried; maxBytes is \(limit). Allow more bytes, a smaller size or another format.",
                stage: .encode
            )
        )
    }
}
