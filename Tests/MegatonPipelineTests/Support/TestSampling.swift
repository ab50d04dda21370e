internal import CTurboJPEG
import Foundation
import Testing

@testable import MegatonPipeline

/// JPEGs with chroma samplings that no image of the corpus has, and that libvips does not write.
enum TestSampling: CaseIterable, Sendable {
    case s444, s422, s420
    /// Chroma at half the height; at a quarter of the width.
    case s440, s411

    private var code: TJSAMP {
        switch self {
        case .s444: TJSAMP_444
        case .s422: TJSAMP_422
        case .s420: TJSAMP_420
        case .s440: TJSAMP_440
        case .s411: TJSAMP_411
        }
    }

    /// A baseline JPEG with the pixels of a closure: red, green, blue.
    func jpeg(
        _ width: Int,
        _ height: Int,
        quality: Int = 89,
        _ pixel: (_ x: Int, _ y: Int) -> (UInt8, UInt8, UInt8)
    ) throws -> Data {
        var pixels = [UInt8]()
        pixels.reserveCapacity(width * height * 3)
        for y in 0..<height {
            for x in 0..<width {
                let (red, green, blue) = pixel(x, y)
                pixels += [red, green, blue]
            }
        }
        let compressor = try #require(tjInitCompress())
        defer { tjDestroy(compressor) }
        var bytes: UnsafeMutablePointer<UInt8>?
        defer { tjFree(bytes) }
        var length: UInt = 0
        let isEncoded = tjCompress2(
            compressor,
            pixels,
            Int32(width),
            0,
            Int32(height),
            Int32(TJPF_RGB.rawValue),
            &bytes,
            &length,
            Int32(code.rawValue),
            Int32(quality),
            TJFLAG_ACCURATEDCT
        )
        try #require(isEncoded == 0)
        return Data(bytes: try #require(bytes), count: Int(length))
    }
}
