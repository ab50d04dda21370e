/// Reads the one EXIF field that changes how an image is rendered: its orientation.
enum EXIFReader {
    private static let orientationTag = 0x0112

    /// The orientation, 1 to 8, from the first directory of a TIFF header (TIFF 6.0 section 2); 1 without that field.
    ///
    /// - Returns: nil if the data is damaged or unusual.
    static func orientation(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let tiff = TIFFReader(bytes), let start = tiff.first, let entries = tiff.entries(at: start) else {
            return nil
        }
        var found: Int?
        for entry in entries where entry.tag == orientationTag {
            // The field is valid only if it is a single short number and appears once.
            guard entry.kind == 3, entry.count == 1, let value = tiff.number(entry.value, bytes: 2),
                (1...8).contains(value), found == nil
            else { return nil }
            found = value
        }
        return found ?? 1
    }
}

/// Reads the directories of a TIFF header, in which EXIF has its fields (TIFF 6.0 section 2). Never reads beyond the
/// end of the bytes, and follows no links by itself.
struct TIFFReader {
    /// A field of a directory.
    struct Entry {
        let tag: Int
        /// Type of its values: 2 is text, 3 a short number, 4 a long one.
        let kind: Int
        /// Number of values.
        let count: Int
        /// Offset of its four bytes for values, or for their offset if they take more.
        let value: Int
    }

    /// Most entries of a directory that are read. Cameras write a dozen.
    private static let entryLimit = 256

    private let bytes: UnsafeRawBufferPointer
    private let isLittle: Bool

    /// - Returns: nil if the bytes do not begin with a TIFF header.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 8 else { return nil }
        switch (bytes[0], bytes[1]) {
        case (0x49, 0x49): isLittle = true
        case (0x4D, 0x4D): isLittle = false
        default: return nil
        }
        self.bytes = bytes
        if number(2, bytes: 2) != 42 { return nil }
    }

    /// Offset of the first directory.
    var first: Int? { number(4, bytes: 4) }

    /// A number of 2 or 4 bytes; nil if it is beyond the end.
    func number(_ index: Int, bytes count: Int) -> Int? {
        guard index >= 0, index + count <= bytes.count else { return nil }
        return (0..<count).reduce(0) { $0 << 8 | Int(bytes[index + (isLittle ? count - 1 - $1 : $1)]) }
    }

    /// The fields of a directory; nil if it is cut off or very long.
    func entries(at start: Int) -> [Entry]? {
        guard let count = number(start, bytes: 2), count <= Self.entryLimit else { return nil }
        var entries: [Entry] = []
        entries.reserveCapacity(count)
        for index in 0..<count {
            let entry = start + 2 + 12 * index
            guard let tag = number(entry, bytes: 2), let kind = number(entry + 2, bytes: 2),
                let values = number(entry + 4, bytes: 4), number(entry + 8, bytes: 2) != nil
            else { return nil }
            entries.append(Entry(tag: tag, kind: kind, count: values, value: entry + 8))
        }
        return entries
    }

    /// A text up to its terminating zero, at most 256 bytes of it; nil if the field is none.
    func text(_ entry: Entry) -> String? { textBytes(entry, limit: 256).map { String(decoding: $0, as: UTF8.self) } }

    /// The bytes of a text up to its terminating zero; nil if the field is none.
    func textBytes(_ entry: Entry, limit: Int) -> [UInt8]? {
        guard entry.kind == 2, let start = entry.count <= 4 ? entry.value : number(entry.value, bytes: 4),
            start <= bytes.count, entry.count <= bytes.count - start
        else { return nil }
        return Array(bytes[start..<(start + min(entry.count, limit))].prefix { $0 != 0 })
    }
}

/// The rotation and mirroring that turn a stored image upright, in the axes of the stored image: EXIF's eight cases
/// (CIPA DC-008 section 4.6.4).
struct EXIFOrientation: Sendable, Equatable {
    /// Whether stored rows are upright columns.
    let swapsAxes: Bool
    /// Whether stored columns run from the upright right (or bottom) to the left (or top).
    let mirrorsColumns: Bool
    /// Whether stored rows run from the upright bottom (or right) to the top (or left).
    let mirrorsRows: Bool

    /// - Parameter value: 1 to 8; others are 1.
    init(_ value: Int) {
        swapsAxes = (5...8).contains(value)
        mirrorsColumns = [2, 3, 7, 8].contains(value)
        mirrorsRows = [3, 4, 6, 7].contains(value)
    }

    /// Converts an upright size to the stored size, or the stored size to the upright one.
    func turned(_ size: PixelSize) -> PixelSize {
        swapsAxes ? PixelSize(width: size.height, height: size.width) : size
    }
}
