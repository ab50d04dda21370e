internal import Foundation

/// The quantization tables of a JPEG by its quality (ITU-T T.81 section A.3.4): the divisors of its coefficients.
///
/// Those of libjpeg (annex K.1) are typical ones of 1991. These rise with the distance from the mean alone, and were
/// found by measurement: on photographs of 256, 512 and 1024 pixels and with the same number of bytes, they have a
/// higher SSIMULACRA2, a higher PSNR of luma, and a lower butteraugli (mean of third powers).
struct JPEGQuantization {
    /// In natural order, row by row: 1 to 255.
    let luma: [UInt16]
    let chroma: [UInt16]

    /// - Parameter quality: 1 to 100, as in libjpeg: of the same quality, an image is about as good with these tables
    ///   by butteraugli, better by SSIMULACRA2, and smaller.
    init(quality: Int, _ sampling: ChromaSampling) {
        let quality = Double(min(max(quality, 1), 100))
        // The scale of libjpeg (jpeg_quality_scaling), in percent.
        let percent = quality < 50 ? 5000 / quality : 200 - 2 * quality
        let scale = percent * (0.09 + 0.00015 * quality)
        luma = Self.divisors(Self.lumaWeights, scale)
        chroma = Self.divisors(sampling == .s444 ? Self.fullChromaWeights : Self.chromaWeights, scale)
    }

    private static func divisors(_ weights: [Double], _ scale: Double) -> [UInt16] {
        weights.map { UInt16(min(max(($0 * scale).rounded(), 1), 255)) }
    }

    private static let lumaWeights = weights(mean: 0.9, rise: 5, power: 1.4, all: 1)
    private static let chromaWeights = weights(mean: 1, rise: 4.8, power: 1, all: 1.3)
    /// Of chroma that has a sample for each pixel. The errors of others are spread over two or four pixels.
    private static let fullChromaWeights = weights(mean: 1, rise: 4.8, power: 1, all: 1.8)

    /// Relative divisors.
    ///
    /// - Parameters:
    ///   - mean: That of the block's mean.
    ///   - rise: Added to 1 for seven waves in a row or column.
    ///   - power: Of the distance from the mean, by which it rises.
    ///   - all: Factor of all.
    private static func weights(mean: Double, rise: Double, power: Double, all: Double) -> [Double] {
        (0..<64).map { index in
            if index == 0 { return all * mean }
            let distance = hypot(Double(index % 8), Double(index / 8)) / 7
            return all * (1 + rise * pow(distance, power))
        }
    }
}
