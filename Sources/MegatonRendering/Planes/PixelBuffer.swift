internal import Foundation

/// Upright pixels in memory: rows from the top without gaps, one byte for each band of each pixel, in sRGB or gray.
/// Alpha is the last of two or four bands, and is not premultiplied.
struct PixelBuffer {
    let size: PixelSize
    let bands: Int
    let bytes: [UInt8]

    /// Joins planes of one size.
    ///
    /// - Parameters:
    ///   - planes: Gray, gray and alpha, RGB, or RGB and alpha. Colors are multiplied by alpha.
    init(joining planes: [Plane]) {
        let (width, height, bands) = (planes[0].width, planes[0].height, planes.count)
        size = PixelSize(width: width, height: height)
        self.bands = bands
        bytes = [UInt8](unsafeUninitializedCapacity: width * height * bands) { room, count in
            guard let start = room.baseAddress else { return }
            for y in 0..<height {
                let out = start + y * width * bands
                for (band, plane) in planes.enumerated() {
                    let row = plane.bytes + y * plane.stride
                    for x in 0..<width { out[x * bands + band] = row[x] }
                }
                if bands % 2 == 0 { Self.divide(out, width, bands) }
            }
            count = room.count
        }
    }

    /// Coefficients of BT.601, times 2^16.
    struct Matrix {
        /// Y of black.
        let black: Int
        let luma: Int
        let redOfRed: Int
        let greenOfBlue: Int
        let greenOfRed: Int
        let blueOfBlue: Int

        /// All values from 0 to 255 (JFIF 1.02).
        static let full = Matrix(
            black: 0,
            luma: 65_536,
            redOfRed: 91_881,
            greenOfBlue: 22_554,
            greenOfRed: 46_802,
            blueOfBlue: 116_130
        )
        /// Y from 16 to 235, Cb and Cr from 16 to 240 (RFC 6386 section 9.2).
        static let video = Matrix(
            black: 16,
            luma: 76_309,
            redOfRed: 104_597,
            greenOfBlue: 25_675,
            greenOfRed: 53_279,
            blueOfBlue: 132_201
        )
    }

    /// Converts planes of one size, Y, Cb and Cr, to RGB.
    init(converting planes: [Plane], _ matrix: Matrix) {
        let (width, height) = (planes[0].width, planes[0].height)
        size = PixelSize(width: width, height: height)
        bands = 3
        bytes = [UInt8](unsafeUninitializedCapacity: width * height * 3) { room, count in
            guard var out = room.baseAddress else { return }
            for row in 0..<height {
                let y = planes[0].bytes + row * planes[0].stride
                let u = planes[1].bytes + row * planes[1].stride
                let v = planes[2].bytes + row * planes[2].stride
                for x in 0..<width {
                    // Half of 2^16 for rounding.
                    let light = matrix.luma * (Int(y[x]) - matrix.black) + 32_768
                    let (blue, red) = (Int(u[x]) - 128, Int(v[x]) - 128)
                    out[0] = Self.clamped((light + matrix.redOfRed * red) >> 16)
                    out[1] = Self.clamped((light - matrix.greenOfBlue * blue - matrix.greenOfRed * red) >> 16)
                    out[2] = Self.clamped((light + matrix.blueOfBlue * blue) >> 16)
                    out += 3
                }
            }
            count = room.count
        }
    }

    private static func clamped(_ value: Int) -> UInt8 { UInt8(truncatingIfNeeded: min(max(0, value), 255)) }

    /// Divides the colors of a row by its alpha, rounded to the nearest. Scaling may have left a color above its alpha.
    private static func divide(_ row: UnsafeMutablePointer<UInt8>, _ width: Int, _ bands: Int) {
        for x in 0..<width {
            let pixel = row + x * bands
            let alpha = Int(pixel[bands - 1])
            if alpha == 255 { continue }
            for band in 0..<(bands - 1) {
                pixel[band] = alpha == 0 ? 0 : clamped((Int(pixel[band]) * 255 + alpha / 2) / alpha)
            }
        }
    }
}
