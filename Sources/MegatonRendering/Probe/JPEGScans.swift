package import Foundation

/// Counts the scans of a JPEG that may still be incomplete (ITU-T T.81 annex B).
package struct JPEGScans: Equatable {
    /// Whether its frame is progressive (SOF2).
    package private(set) var isProgressive = false
    /// Scan headers received; each one ends the scan before it.
    package private(set) var count = 0

    package init(_ data: Data) {
        data.withUnsafeBytes { bytes in
            guard bytes.count > 3, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return }
            var index = 2
            while index + 3 < bytes.count {
                // Entropy-coded data between segments: there, 0xFF is followed by 0 or a restart marker.
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
                // Counts complete headers only: decoders refuse incomplete ones.
                if marker == 0xDA, index <= bytes.count { count += 1 }
            }
        }
    }
}
