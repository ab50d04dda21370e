internal import Foundation

/// The color space of an ICC profile (ICC.1:2010). Recognizes sRGB by the profile's numbers, not by its name.
struct ICCProfile {
    /// Whether the profile is for RGB.
    let isRGB: Bool
    /// Whether its primaries and curves are sRGB's (IEC 61966-2-1), so that values need no conversion.
    let isSRGB: Bool

    /// - Returns: nil if the bytes are not a profile.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= 132, Self.text(bytes, 36) == "acsp" else { return nil }
        isRGB = Self.text(bytes, 16) == "RGB "
        isSRGB = isRGB && Self.hasColors(of: bytes, Self.tags(bytes))
    }

    /// The note for the ledger about a profile that does not fit its image.
    ///
    /// - Parameters:
    ///   - misfit: the reason why it does not fit.
    ///   - colors: the color space assumed without the profile.
    static func note(_ misfit: String, as colors: String) -> String {
        "the color profile does not fit and is left out: \(misfit); the image is taken as \(colors)"
    }

    private static let tagLimit = 100
    /// sRGB's primaries, adapted to D50: X, Y and Z.
    private static let primaries: [(tag: String, xyz: [Double])] = [
        ("rXYZ", [0.4361, 0.2225, 0.0139]), ("gXYZ", [0.3851, 0.7169, 0.0971]), ("bXYZ", [0.1431, 0.0606, 0.7141]),
    ]
    private static let curves = ["rTRC", "gTRC", "bTRC"]
    /// Tolerances of primaries and of linear light. The latter is one and a half steps of 8 bits in the darkest parts,
    /// where sRGB's steps are smallest.
    private static let (primaryTolerance, curveTolerance) = (0.001, 0.0005)

    private static func hasColors(of bytes: [UInt8], _ tags: [String: Range<Int>]) -> Bool {
        // Lookup tables take precedence over matrices (section 8.3.1).
        let hasTables = tags.keys.contains { $0.hasPrefix("A2B") || $0.hasPrefix("D2B") }
        if hasTables || text(bytes, 20) != "XYZ " { return false }
        for (tag, xyz) in primaries {
            guard let range = tags[tag], range.count >= 20, text(bytes, range.lowerBound) == "XYZ " else {
                return false
            }
            for (index, wanted) in xyz.enumerated()
            where abs(fixed(bytes, range.lowerBound + 8 + 4 * index) - wanted) > primaryTolerance {
                return false
            }
        }
        return curves.allSatisfy { tag in tags[tag].map { isCurve(bytes, $0) } ?? false }
    }

    private static func isCurve(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        guard let curve = curve(bytes, range) else { return false }
        return (0...32).allSatisfy { step in
            let value = Double(step) / 32
            let wanted = value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
            return abs(curve(value) - wanted) <= curveTolerance
        }
    }

    /// A tone curve from 0...1 to 0...1: a table, or the parametric form that sRGB uses (sections 10.5 and 10.15). A
    /// plain gamma is not sRGB's curve.
    private static func curve(_ bytes: [UInt8], _ range: Range<Int>) -> ((Double) -> Double)? {
        guard range.count >= 12 else { return nil }
        let start = range.lowerBound
        switch text(bytes, start) {
        case "curv":
            let count = number(bytes, start + 8, 4)
            guard count > 1, count <= 65_536, range.count >= 12 + 2 * count else { return nil }
            return { value in
                let place = value * Double(count - 1)
                let index = min(Int(place), count - 2)
                let low = Double(number(bytes, start + 12 + 2 * index, 2))
                let high = Double(number(bytes, start + 14 + 2 * index, 2))
                return (low + (high - low) * (place - Double(index))) / 65_535
            }
        case "para":
            guard number(bytes, start + 8, 2) == 3, range.count >= 32 else { return nil }
            let (g, a, b) = (fixed(bytes, start + 12), fixed(bytes, start + 16), fixed(bytes, start + 20))
            let (c, d) = (fixed(bytes, start + 24), fixed(bytes, start + 28))
            return { $0 >= d ? pow(a * $0 + b, g) : c * $0 }
        default: return nil
        }
    }

    private static func tags(_ bytes: [UInt8]) -> [String: Range<Int>] {
        let count = number(bytes, 128, 4)
        guard count <= tagLimit, bytes.count >= 132 + 12 * count else { return [:] }
        var tags: [String: Range<Int>] = [:]
        for index in 0..<count {
            let entry = 132 + 12 * index
            let (start, length) = (number(bytes, entry + 4, 4), number(bytes, entry + 8, 4))
            guard start + length <= bytes.count else { return [:] }
            // Readers differ in which of two tags with the same name they use.
            guard tags.updateValue(start..<(start + length), forKey: text(bytes, entry)) == nil else { return [:] }
        }
        return tags
    }

    // MARK: - Numbers

    private static func number(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int {
        bytes[start..<(start + count)].reduce(0) { $0 << 8 | Int($1) }
    }

    /// s15Fixed16Number (section 4.6).
    private static func fixed(_ bytes: [UInt8], _ start: Int) -> Double {
        Double(Int32(truncatingIfNeeded: number(bytes, start, 4))) / 65_536
    }

    private static func text(_ bytes: [UInt8], _ start: Int) -> String {
        String(decoding: bytes[start..<(start + 4)], as: UTF8.self)
    }
}
