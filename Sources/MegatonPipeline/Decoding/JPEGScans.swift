internal import Foundation

/// Looks through the markers of a JPEG that may not have come as a whole (ITU-T T.81 annex B).
struct JPEGScans: Equatable {
    /// Whether its frame is progressive (SOF2).
    private(set) var isProgressive = false
    /// Scans whose headers have come, each of which ends the one before.
    private(set) var count = 0

    init(_ data: Data) {
        data.withUnsafeBytes { bytes in
            guard bytes.count > 3, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return }
            var index = 2
            while index + 3 < bytes.count {
                // Between segments stand the coefficients of a scan, in which 0xFF is followed by 0 or a restart
                // marker.
                guard bytes[index] == 0xFF, bytes[index + 1] != 0, bytes[index + 1] != 0xFF,
                    !(0xD0...0xD7).contains(bytes[index + 1])
                else {
                    index += 1
                    continue
                }
                let marker = bytes[index + 1]
                if marker == 0xD9 { return }
                if marker == 0xC2 { isProgressive = true }
                index += 2 + (Int(bytes[index + 2]) << 8 | Int(bytes[index + 3]))
                // Decoders refuse half a header.
                if marker == 0xDA, index <= bytes.count { count += 1 }
            }
        }
    }
}
