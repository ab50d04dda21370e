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
            for segment in JPEGMarkers(bytes) {
                if segment.marker == 0xC2 { isProgressive = true }
                // Counts complete headers only: decoders refuse incomplete ones.
                if segment.marker == JPEGMarkers.startOfScan, segment.end <= bytes.count { count += 1 }
            }
        }
    }
}

/// Counts the components that the scans of a JPEG cover, for progressive ones by coefficient (ITU-T T.81 annexes B.2.2,
/// B.2.3 and G.1.1.1).
struct JPEGScanCoverage {
    /// Components of the frame with a coefficient that no scan contains. Ignores the precision of coefficients.
    private(set) var missing = 0
    /// Missing coefficients of each component, as a bit mask; nil before the frame.
    private var components: [UInt8: UInt64]?
    private var isProgressive = false

    /// - Returns: nil if a header cannot be read; the decoder reports the reason.
    init?(_ data: Data) {
        let isRead = data.withUnsafeBytes { bytes in
            for segment in JPEGMarkers(bytes) where segment.end <= bytes.count {
                let marker = segment.marker
                let isFrame = (0xC0...0xCF).contains(marker) && ![0xC4, 0xC8, 0xCC].contains(marker)
                if isFrame, components == nil {
                    guard takeFrame(segment, bytes) else { return false }
                } else if marker == JPEGMarkers.startOfScan {
                    guard takeScan(segment, bytes) else { return false }
                    // Usually the only scan, or the first of several, covers everything.
                    if components?.isEmpty == true { break }
                }
            }
            return components != nil
        }
        guard isRead, let components else { return nil }
        missing = components.count
    }

    private mutating func takeFrame(_ segment: JPEGMarkers.Segment, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let first = segment.start + 10
        guard first <= segment.end, first + 3 * Int(bytes[first - 1]) <= segment.end else { return false }
        var all: [UInt8: UInt64] = [:]
        for component in 0..<Int(bytes[first - 1]) { all[bytes[first + 3 * component]] = UInt64.max }
        components = all
        isProgressive = [0xC2, 0xC6, 0xCA, 0xCE].contains(segment.marker)
        return true
    }

    private mutating func takeScan(_ segment: JPEGMarkers.Segment, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let first = segment.start + 5
        guard first <= segment.end else { return false }
        let band = first + 2 * Int(bytes[first - 1])
        guard band <= segment.end else { return false }
        var coefficients = UInt64.max
        if isProgressive {
            guard band + 2 <= segment.end, bytes[band] <= bytes[band + 1], bytes[band + 1] < 64 else { return false }
            coefficients = UInt64.max << UInt64(bytes[band]) & UInt64.max >> UInt64(63 - bytes[band + 1])
        }
        for index in 0..<Int(bytes[first - 1]) {
            let component = bytes[first + 2 * index]
            guard let left = components?[component] else { continue }
            components?[component] = left & ~coefficients == 0 ? nil : left & ~coefficients
        }
        return true
    }
}
