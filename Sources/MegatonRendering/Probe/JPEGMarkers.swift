internal import Foundation

/// The marker segments of a JPEG in file order, as libjpeg finds them: it skips bytes that are not markers, including
/// entropy-coded data (ITU-T T.81 annex B.1.1.2). Ends at the end of the image or of the data.
///
/// A file may have a segment for every four bytes; `HeaderBounds` limits their number.
struct JPEGMarkers: Sequence, IteratorProtocol {
    struct Segment {
        /// The code after 0xFF. Never one that stands alone: a fill byte, a stuffed byte, TEM, RST, SOI or EOI.
        let marker: UInt8
        /// Offset of the 0xFF before the marker.
        let start: Int
        /// Offset of the next segment or of a scan's data; beyond the data if the segment is cut off.
        let end: Int
        /// Whether bytes other than fill bytes lie between it and the segment before.
        let followsGap: Bool
    }

    static let startOfScan: UInt8 = 0xDA

    private let bytes: UnsafeRawBufferPointer
    /// Offset from which the next segment is looked for.
    private(set) var index: Int

    /// - Parameters:
    ///   - bytes: a whole file, or its first bytes, with SOI.
    ///   - index: the ``index`` of an earlier iteration that continues here, with more bytes.
    init(_ bytes: UnsafeRawBufferPointer, from index: Int = 2) {
        self.bytes = bytes
        self.index = index
    }

    mutating func next() -> Segment? {
        var followsGap = false
        while let mark = nextMark() {
            guard mark + 3 < bytes.count else {
                index = mark
                return nil
            }
            let code = bytes[mark + 1]
            // Most 0xFF bytes of a file are stuffed ones in entropy-coded data.
            if code == 0 {
                index = mark + 2
                followsGap = true
                continue
            }
            if mark > index { followsGap = true }
            switch code {
            // A fill byte (annex B.1.1.2).
            case 0xFF: index = mark + 1
            case 0x01, 0xD0...0xD8:
                index = mark + 2
                followsGap = true
            case 0xD9: return nil
            case let marker:
                index = mark + 2 + (Int(bytes[mark + 2]) << 8 | Int(bytes[mark + 3]))
                return Segment(marker: marker, start: mark, end: index, followsGap: followsGap)
            }
        }
        // A later iteration, with more bytes, need not look at these again.
        index = Swift.max(index, bytes.count)
        return nil
    }

    /// The next 0xFF byte. Uses memchr, because most of an image is other bytes.
    private func nextMark() -> Int? {
        guard index < bytes.count, let start = bytes.baseAddress,
            let found = memchr(start + index, 0xFF, bytes.count - index)
        else { return nil }
        return UnsafeRawPointer(found) - start
    }
}
