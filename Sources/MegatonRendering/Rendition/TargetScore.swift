internal import Foundation

/// The search for the lowest quality whose encoded image has at least the rendition's `targetScore`.
enum TargetScore {
    /// Scores that can be asked for.
    static let range = 10.0...100
    /// The highest quality that is tried, unless the rendition asks for more: beyond it, bytes grow and the score
    /// hardly does.
    static let highestQuality = 95
    /// Maximum number of encodings of one rendition, each of which is decoded and compared.
    static let maximumEncodings = 8
    /// Longer side of the part in the middle that is compared, in pixels: 0.1 s for each encoding.
    static let sampleSide = 512

    /// Bytes that a comparison holds: about 30 planes of floats, of the part that is compared.
    static func bytes(comparing pixels: Double) -> Double { min(pixels, Double(sampleSide * sampleSide)) * 132 }

    /// An encoded image with its score.
    struct Scored {
        let data: Data
        let score: Double
    }

    /// The image with the fewest bytes that has the score; if none has it, the one with the highest score. No image has
    /// more than `maxBytes`.
    ///
    /// - Parameters:
    ///   - encode: Encodes the same pixels at the quality of its argument.
    ///   - score: Compares an encoded image with the pixels.
    /// - Throws: `tooLarge` if no quality that was tried has at most `maxBytes`, or the error of a closure.
    static func find<Failure: Error>(
        _ rendition: Rendition,
        target: Double,
        tooLarge: (ImageError) -> Failure,
        encode: (Rendition) throws(Failure) -> Data,
        score: (Data) throws(Failure) -> Double
    ) throws(Failure) -> Scored {
        var rendition = rendition
        var lowest = min(EncodedSize.lowestQuality, rendition.quality)
        var highest = max(highestQuality, rendition.quality)
        let limit = rendition.maxBytes ?? .max
        var (reached, closest): (Scored?, Scored?) = (nil, nil)
        var smallest = Int.max
        for number in 0..<maximumEncodings where lowest <= highest {
            // The rendition's own quality is likely to be close.
            if number > 0 { rendition.quality = (lowest + highest) / 2 }
            let data = try encode(rendition)
            smallest = min(smallest, data.count)
            if data.count > limit {
                highest = rendition.quality - 1
                continue
            }
            let scored = Scored(data: data, score: try score(data))
            if scored.score >= target {
                reached = scored
                highest = rendition.quality - 1
            } else {
                if scored.score > closest?.score ?? -.infinity { closest = scored }
                lowest = rendition.quality + 1
            }
        }
        if let found = reached ?? closest { return found }
        throw tooLarge(
            ImageError(
                .outputTooLarge,
                "\(rendition.name) has \(smallest) bytes at the lowest quality that was tried; maxBytes is \(limit). "
                    + "Allow more bytes, a smaller size or another format.",
                stage: .encode
            )
        )
    }
}
