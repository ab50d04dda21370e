import Foundation

/// ICC profiles of three primaries and one curve, by the specification (ICC.1:2010).
enum TestProfile {
    static let srgb = profile()
    static let p3 = profile(primaries: [
        [0.5151, 0.2412, -0.0011], [0.2919, 0.6922, 0.0419], [0.1572, 0.0666, 0.7841],
    ])

    static let srgbPrimaries = [[0.4361, 0.2225, 0.0139], [0.3851, 0.7169, 0.0971], [0.1431, 0.0606, 0.7141]]
    /// The transfer function of sRGB.
    static let srgbCurve = parametric(3, [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045])

    static func profile(
        primaries: [[Double]] = srgbPrimaries,
        curve: [UInt8] = srgbCurve,
        space: String = "RGB ",
        connection: String = "XYZ ",
        extra: [(String, [UInt8])] = []
    ) -> [UInt8] {
        let colours = zip(["rXYZ", "gXYZ", "bXYZ"], primaries).map { tag, xyz in
            (tag, Array("XYZ \0\0\0\0".utf8) + xyz.flatMap(fixed))
        }
        let tags = colours + ["rTRC", "gTRC", "bTRC"].map { ($0, curve) } + extra
        var directory = number(tags.count)
        var values: [UInt8] = []
        for (name, value) in tags {
            directory += Array(name.utf8) + number(132 + 12 * tags.count + values.count) + number(value.count)
            values += value + [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
        }
        var header = [UInt8](repeating: 0, count: 128)
        header.replaceSubrange(16..<20, with: Array(space.utf8))
        header.replaceSubrange(20..<24, with: Array(connection.utf8))
        header.replaceSubrange(36..<40, with: Array("acsp".utf8))
        return header + directory + values
    }

    static func parametric(_ kind: UInt8, _ numbers: [Double]) -> [UInt8] {
        Array("para\0\0\0\0".utf8) + [0, kind, 0, 0] + numbers.flatMap(fixed)
    }

    static func table(_ count: Int, _ value: (Double) -> Double) -> [UInt8] {
        Array("curv\0\0\0\0".utf8) + number(count)
            + (0..<count).flatMap { index -> [UInt8] in
                let sample = UInt16((value(Double(index) / Double(count - 1)) * 65_535).rounded())
                return [UInt8(sample >> 8), UInt8(sample & 255)]
            }
    }

    static func number(_ value: Int) -> [UInt8] { withUnsafeBytes(of: UInt32(value).bigEndian) { Array($0) } }

    private static func fixed(_ value: Double) -> [UInt8] {
        withUnsafeBytes(of: Int32((value * 65_536).rounded()).bigEndian) { Array($0) }
    }
}
