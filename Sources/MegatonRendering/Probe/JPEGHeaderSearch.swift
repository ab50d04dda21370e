/// The search for the end of a JPEG's header, which is that of its first scan header. It goes on where it was when more
/// of the file has arrived: a header may have a segment for every four bytes, and arrive in small pieces.
struct JPEGHeaderSearch {
    enum Result: Equatable {
        /// The header ends behind the bytes so far.
        case more
        /// Length in bytes of the header.
        case end(Int)
        /// No header that ``JPEGHeader`` reads begins like this, or it is too long.
        case other
    }

    /// Length in bytes from which no end is looked for. Profiles and previews of cameras have less.
    static let longest = 4 << 20

    private var index = 2
    private var parts = 0

    /// - Parameter bytes: the file from its first byte on, and no fewer than at the last call.
    mutating func find(in bytes: UnsafeRawBufferPointer) -> Result {
        guard bytes.count >= 3 else { return .more }
        guard bytes[0] == 0xFF, bytes[1] == 0xD8, bytes[2] == 0xFF else { return .other }
        var markers = JPEGMarkers(bytes, from: index)
        while let segment = markers.next() {
            parts += 1
            guard !segment.followsGap, parts <= HeaderBounds.parts, segment.end <= Self.longest else { return .other }
            guard segment.end <= bytes.count else {
                // Read again when all of it is there.
                parts -= 1
                index = segment.start
                return .more
            }
            if segment.marker == JPEGMarkers.startOfScan { return .end(segment.end) }
            index = markers.index
        }
        index = markers.index
        return index <= Self.longest ? .more : .other
    }
}
