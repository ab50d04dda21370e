internal import Foundation

/// Raw contents of the segments before a JPEG's first scan, as stored; ``JPEGHeader`` interprets them.
///
/// The initializer returns nil if a segment is unusual, damaged or repeated.
struct JPEGSegments {
    /// A frame header (ITU-T T.81 annex B.2.2).
    struct Frame {
        let size: PixelSize
        let isProgressive: Bool
        /// Sampling factors of each component.
        let factors: [(horizontal: Int, vertical: Int)]

        var sampling: ChromaSampling? {
            guard factors.dropFirst().allSatisfy({ $0 == (1, 1) }) else { return nil }
            return switch (factors.count, factors[0].horizontal, factors[0].vertical) {
            case (1, 1, 1): .gray
            case (3, 1, 1): .s444
            case (3, 2, 1): .s422
            case (3, 2, 2): .s420
            default: nil
            }
        }
    }

    private(set) var frame: Frame?
    /// Whether the first scan has fewer components than the frame, as in every JPEG with several scans.
    private(set) var hasSeveralScans = false
    private(set) var orientation: Int?
    /// The bytes of the ICC profile, joined; empty without one.
    private(set) var profile: [UInt8] = []
    private var parts = 0
    /// Whether all parts of the profile have been read.
    private var isComplete = true
    private var isYCbCr = true
    private var isNamedRGB = false
    private var hasJFIF = false
    private var hasAdobe = false

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 4, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return nil }
        var scan: JPEGMarkers.Segment?
        for segment in JPEGMarkers(bytes) {
            guard !segment.followsGap, segment.start + 4 <= segment.end, segment.end <= bytes.count else { return nil }
            if segment.marker == JPEGMarkers.startOfScan {
                scan = segment
                break
            }
            let body = UnsafeRawBufferPointer(rebasing: bytes[(segment.start + 4)..<segment.end])
            guard take(segment.marker, body) else { return nil }
        }
        // The component count of a scan follows its length (annex B.2.3).
        guard let scan, isComplete, scan.start + 5 <= bytes.count, let frame else { return nil }
        hasSeveralScans = Int(bytes[scan.start + 4]) < frame.factors.count
        // Without JFIF and Adobe segments, libjpeg treats components named R, G and B as RGB; libvips decodes those.
        if isNamedRGB && !hasJFIF && !hasAdobe { return nil }
        if !isYCbCr && frame.factors.count != 1 { return nil }
    }

    private mutating func take(_ marker: UInt8, _ body: UnsafeRawBufferPointer) -> Bool {
        switch marker {
        // Baseline, extended and progressive frames with Huffman coding.
        case 0xC0, 0xC1, 0xC2: takeFrame(body, isProgressive: marker == 0xC2)
        case 0xE0: takeJFIF(body)
        case 0xE1: takeEXIF(body)
        case 0xE2: takeProfile(body)
        case 0xEE: takeAdobe(body)
        // Tables, restart intervals, comments, and segments of other applications.
        case 0xC4, 0xDB, 0xDD, 0xFE, 0xE3...0xED, 0xEF: true
        default: false
        }
    }

    /// Adobe's segment declares the color space of three components: 1 is YCbCr, 0 is RGB.
    private mutating func takeAdobe(_ body: UnsafeRawBufferPointer) -> Bool {
        guard body.starts(with: "Adobe".utf8) else { return true }
        guard body.count >= 12 else { return false }
        isYCbCr = body[11] == 1
        hasAdobe = true
        return true
    }

    /// The three components of a JFIF file are YCbCr, whatever their names (JFIF 1.02). A shorter segment is none to
    /// libjpeg either.
    private mutating func takeJFIF(_ body: UnsafeRawBufferPointer) -> Bool {
        if body.count >= 14, body.starts(with: "JFIF\0".utf8) { hasJFIF = true }
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

    /// Appends a part of the ICC profile. Parts come in order, each with its number and the total (ICC.1:2010 annex
    /// B.4).
    private mutating func takeProfile(_ body: UnsafeRawBufferPointer) -> Bool {
        guard body.starts(with: "ICC_PROFILE\0".utf8) else { return true }
        guard body.count > 14, Int(body[12]) == parts + 1 else { return false }
        parts += 1
        isComplete = Int(body[13]) == parts
        profile += body[14...]
        return true
    }
}
