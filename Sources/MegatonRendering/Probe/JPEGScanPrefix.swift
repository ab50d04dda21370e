internal import Foundation

/// The coefficients of each component, and their precision, that a shrunk decode of a progressive JPEG needs (ITU-T
/// T.81 annex G.1.1.1).
struct JPEGScanNeeds: Hashable {
    /// Coefficients in zigzag order, as a bit mask.
    let coefficients: UInt64
    /// Low bits of the first coefficient that may be missing.
    let missingBitsOfFirst: Int
    /// Low bits of the others that may be missing.
    let missingBitsOfOthers: Int

    /// For an eighth of the size: one sample for each block, which is its first coefficient.
    static let eighth = JPEGScanNeeds(coefficients: 0b1, missingBitsOfFirst: 1, missingBitsOfOthers: 0)
    /// For a quarter: the first two coefficients in both directions. The precision is that of the first scans of
    /// libjpeg's usual script (`jpeg_simple_progression`).
    static let quarter = JPEGScanNeeds(coefficients: 0b1_0111, missingBitsOfFirst: 1, missingBitsOfOthers: 2)
}

/// The first bytes of a progressive JPEG, up to the end of the scan that completes the needed coefficients.
struct JPEGScanPrefix {
    /// Length in bytes. A marker of another segment follows.
    let count: Int

    /// - Returns: nil if the last scan is needed too or is not there yet, or if a header cannot be read.
    init?(_ bytes: UnsafeRawBufferPointer, for needs: JPEGScanNeeds) {
        var search = JPEGScanSearch(for: needs)
        guard let count = search.find(in: bytes) else { return nil }
        self.count = count
    }
}

/// The search for the end of the needed scans, which goes on where it was when more of the file has arrived.
struct JPEGScanSearch {
    private let needs: JPEGScanNeeds
    /// Missing coefficients of each component; nil before the frame.
    private var missing: [UInt8: UInt64]?
    private var index = 2
    private var isUnreadable = false
    /// Length in bytes of what is needed, once that is known.
    private var count: Int?

    init(for needs: JPEGScanNeeds) { self.needs = needs }

    /// - Parameter bytes: the file from its first byte on.
    /// - Returns: length in bytes of the needed scans; nil as in ``JPEGScanPrefix``.
    mutating func find(in bytes: UnsafeRawBufferPointer) -> Int? {
        if count != nil || isUnreadable { return count }
        guard bytes.count > 3, bytes[0] == 0xFF, bytes[1] == 0xD8 else { return nil }
        var markers = JPEGMarkers(bytes, from: index)
        while let segment = markers.next() {
            if missing?.isEmpty == true {
                count = segment.start
                return count
            }
            guard segment.end <= bytes.count else {
                // Read again when all of it is there.
                index = segment.start
                return nil
            }
            guard take(segment, bytes) else {
                isUnreadable = true
                return nil
            }
            index = markers.index
        }
        index = markers.index
        return nil
    }

    /// - Returns: false if the header of a frame or of a scan cannot be read.
    private mutating func take(_ segment: JPEGMarkers.Segment, _ bytes: UnsafeRawBufferPointer) -> Bool {
        if segment.marker == Self.progressiveFrame {
            guard missing == nil, let components = Self.components(segment, bytes) else { return false }
            missing = Dictionary(components.map { ($0, needs.coefficients) }) { first, _ in first }
        } else if segment.marker == JPEGMarkers.startOfScan {
            guard let open = missing, let scan = Scan(segment, bytes) else { return false }
            missing = scan.completing(open, needs)
        }
        return true
    }

    private static let progressiveFrame: UInt8 = 0xC2

    /// Identifiers of the components of a frame (annex B.2.2).
    private static func components(_ segment: JPEGMarkers.Segment, _ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        let first = segment.start + 10
        guard first <= segment.end else { return nil }
        let number = Int(bytes[first - 1])
        guard number > 0, first + 3 * number <= segment.end else { return nil }
        return (0..<number).map { bytes[first + 3 * $0] }
    }

    /// The header of a scan (annex B.2.3).
    private struct Scan {
        let components: [UInt8]
        let coefficients: UInt64
        let startsAtFirst: Bool
        /// Low bits that the scan leaves to later ones.
        let missingBits: Int

        init?(_ segment: JPEGMarkers.Segment, _ bytes: UnsafeRawBufferPointer) {
            let first = segment.start + 5
            guard first <= segment.end else { return nil }
            let number = Int(bytes[first - 1])
            let band = first + 2 * number
            guard number > 0, band + 3 <= segment.end, bytes[band] <= bytes[band + 1], bytes[band + 1] < 64 else {
                return nil
            }
            components = (0..<number).map { bytes[first + 2 * $0] }
            coefficients = UInt64.max << UInt64(bytes[band]) & UInt64.max >> UInt64(63 - bytes[band + 1])
            startsAtFirst = bytes[band] == 0
            missingBits = Int(bytes[band + 2] & 15)
        }

        /// The missing coefficients of components that still miss some behind this scan.
        func completing(_ missing: [UInt8: UInt64], _ needs: JPEGScanNeeds) -> [UInt8: UInt64] {
            let allowed = startsAtFirst ? needs.missingBitsOfFirst : needs.missingBitsOfOthers
            guard missingBits <= allowed else { return missing }
            var missing = missing
            for component in components {
                guard let left = missing[component] else { continue }
                missing[component] = left & ~coefficients == 0 ? nil : left & ~coefficients
            }
            return missing
        }
    }
}
