internal import Foundation

/// Goes through the segments before a JPEG's first scan. Nil where one is unusual, damaged or there twice.
struct JPEGSegments {
    /// A frame's header (ITU-T T.81 annex B.2.2).
    struct Frame {
        let size: PixelSize
        let isProgressive: Bool
        /// Of each component, in a row and in a column.
        let factors: [(horizontal: Int, vertical: Int)]

        var sampling: ChromaSampling? {
            guard factors.dropFirst().allSatisfy({ $0 == (1, 1) }) else { return nil }
            return switch (factors.count, factors[0].horizontal, factors[0].vertical) {
            case (1, 1, 1): .grey
            case (3, 1, 1): .s444
            case (3, 2, 1): .s422
            case (3, 2, 2): .s420
            default: nil
            }
        }
    }

    private(set) var frame: Frame?
    /// Whether its first scan has fewer components than the picture, as all have of one in several scans.
    private(set) var hasSeveralScans = false
    private(set) var orientation: Int?
    /// The bytes of the ICC profile, joined; empty without one.
    private(set) var profile: [UInt8] = []
    private var parts = 0
    /// Whether as many parts have come as there are.
    private var isComplete = true
    private var isYCbCr = true
    private var isNamedRGB = false
    private var hasJFIF = false
    private var hasAdobe = false

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 4, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return nil }
        var index = 2
        // Each takes four bytes at the least, and `HeaderBounds` has counted them.
        while index + 4 <= bytes.count, bytes[index] == 0xFF {
            let marker = bytes[index + 1]
            // Filled up with any number of bytes (annex B.1.1.2).
            if marker == 0xFF {
                index += 1
                continue
            }
            let length = Int(bytes[index + 2]) << 8 | Int(bytes[index + 3])
            let end = index + 2 + length
            guard length >= 2, end <= bytes.count else { return nil }
            if marker == 0xDA { break }
            let body = UnsafeRawBufferPointer(rebasing: bytes[(index + 4)..<end])
            guard take(marker, body) else { return nil }
            index = end
        }
        guard index + 4 <= bytes.count, bytes[index] == 0xFF, bytes[index + 1] == 0xDA, isComplete else { return nil }
        // How many components a scan has stands behind its length (annex B.2.3).
        guard index + 5 <= bytes.count, let frame else { return nil }
        hasSeveralScans = Int(bytes[index + 4]) < frame.factors.count
        // Nobody has said what they are but their names, as libjpeg reads them.
        if isNamedRGB && !hasJFIF && !hasAdobe { return nil }
        if !isYCbCr && frame.factors.count != 1 { return nil }
    }

    private mutating func take(_ marker: UInt8, _ body: UnsafeRawBufferPointer) -> Bool {
        switch marker {
        // Baseline, extended and progressive frames with Huffman's codes.
        case 0xC0, 0xC1, 0xC2: takeFrame(body, isProgressive: marker == 0xC2)
        case 0xE0: takeJFIF(body)
        case 0xE1: takeEXIF(body)
        case 0xE2: takeProfile(body)
        case 0xEE: takeAdobe(body)
        // Tables, restart intervals, comments, and other applications' segments.
        case 0xC4, 0xDB, 0xDD, 0xFE, 0xE3...0xED, 0xEF: true
        default: false
        }
    }

    /// Adobe's segment says what three components are: 1 is YCbCr, 0 is RGB.
    private mutating func takeAdobe(_ body: UnsafeRawBufferPointer) -> Bool {
        guard body.starts(with: "Adobe".utf8) else { return true }
        guard body.count >= 12 else { return false }
        isYCbCr = body[11] == 1
        hasAdobe = true
        return true
    }

    /// Its three components are YCbCr, whatever they are called (JFIF 1.02).
    private mutating func takeJFIF(_ body: UnsafeRawBufferPointer) -> Bool {
        if body.count >= 12, body.starts(with: "JFIF\0".utf8) { hasJFIF = true }
        return true
    }

    private mutating func takeFrame(_ body: UnsafeRawBufferPointer, isProgressive: Bool) -> Bool {
        guard frame == nil, body.count >= 6, body[0] == 8 else { return false }
        let count = Int(body[5])
        guard count == 1 || count == 3, body.count == 6 + 3 * count else { return false }
        let size = PixelSize(width: Int(body[3]) << 8 | Int(body[4]), height: Int(body[1]) << 8 | Int(body[2]))
        guard size.width > 0, size.height > 0 else { return false }
        let factors = (0..<count).map { component in
            let byte = Int(body[7 + 3 * component])
            return (horizontal: byte >> 4, vertical: byte & 15)
        }
        frame = Frame(size: size, isProgressive: isProgressive, factors: factors)
        isNamedRGB = count == 3 && (0..<3).map { body[6 + 3 * $0] } == Array("RGB".utf8)
        return true
    }

    private mutating func takeEXIF(_ body: UnsafeRawBufferPointer) -> Bool {
        guard body.starts(with: "Exif".utf8) else { return true }
        guard body.starts(with: "Exif\0\0".utf8), orientation == nil else { return false }
        guard let found = EXIFReader.orientation(UnsafeRawBufferPointer(rebasing: body[6...])) else { return false }
        orientation = found
        return true
    }

    /// Parts in their order, each with its number and how many there are (ICC.1:2010 annex B.4).
    private mutating func takeProfile(_ body: UnsafeRawBufferPointer) -> Bool {
        guard body.starts(with: "ICC_PROFILE\0".utf8) else { return true }
        guard body.count > 14, Int(body[12]) == parts + 1 else { return false }
        parts += 1
        isComplete = Int(body[13]) == parts
        profile += body[14...]
        return true
    }
}
