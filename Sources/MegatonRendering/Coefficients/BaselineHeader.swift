internal import Foundation

/// The segments before the scan of a baseline JPEG with one scan for all components (ITU-T T.81 annex B).
struct BaselineHeader {
    let frame: CoefficientFrame
    let segments: CodingSegments
    /// For each component, the numbers of its Huffman tables.
    let tables: [(dc: Int, ac: Int)]
    /// Offset of the scan's data.
    let scan: Int

    /// Number of parts between restart markers that the scan has.
    var intervals: Int {
        let (interval, units) = (segments.restartInterval, frame.unitsAcross * frame.unitsDown)
        return interval == 0 ? 1 : (units + interval - 1) / interval
    }

    /// - Returns: nil if the file is not usual.
    init?(_ file: Data) {
        guard var start = CodingSegments.first(of: file) else { return nil }
        var segments = CodingSegments()
        while let segment = CodingSegments.segment(of: file, at: start) {
            start = segment.end
            if segment.marker != CodingSegments.startOfScan {
                guard segments.take(segment.marker, segment.body) else { return nil }
                continue
            }
            guard let frame = segments.frame, !frame.isProgressive,
                let tables = Self.tables(Array(segment.body), frame, segments)
            else { return nil }
            (self.frame, self.segments, self.tables, scan) = (frame, segments, tables, start)
            return
        }
        return nil
    }

    /// The tables of a scan that has all components in their order, and all coefficients; nil if it has not.
    private static func tables(
        _ bytes: [UInt8],
        _ frame: CoefficientFrame,
        _ segments: CodingSegments
    ) -> [(dc: Int, ac: Int)]? {
        let count = frame.components.count
        guard bytes.count == 4 + 2 * count, Int(bytes[0]) == count, bytes.suffix(3) == [0, 63, 0] else { return nil }
        var tables: [(dc: Int, ac: Int)] = []
        for (index, component) in frame.components.enumerated() {
            let (name, numbers) = (bytes[1 + 2 * index], bytes[2 + 2 * index])
            let (dc, ac) = (Int(numbers >> 4), Int(numbers & 15))
            guard name == component.name, dc < 4, ac < 4, segments.dc[dc] != nil, segments.ac[ac] != nil,
                segments.quantization[component.quantization].count == 64
            else { return nil }
            tables.append((dc, ac))
        }
        return tables
    }
}
