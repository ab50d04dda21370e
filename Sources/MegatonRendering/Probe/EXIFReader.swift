/// Reads the one EXIF field that changes how an image is rendered: its orientation.
enum EXIFReader {
    private static let orientationTag = 0x0112
    /// Most entries of a directory that are read. Cameras write a dozen.
    private static let entryLimit = 256

    /// The orientation, 1 to 8, from the first directory of a TIFF header (TIFF 6.0 section 2); 1 without that field.
    ///
    /// - Returns: nil if the data is damaged or unusual.
    static func orientation(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= 8 else { return nil }
        let isLittle: Bool
        switch (bytes[0], bytes[1]) {
        case (0x49, 0x49): isLittle = true
        case (0x4D, 0x4D): isLittle = false
        default: return nil
        }
        func number(_ index: Int, bytes count: Int) -> Int? {
            guard index >= 0, index + count <= bytes.count else { return nil }
            return (0..<count).reduce(0) { $0 << 8 | Int(bytes[index + (isLittle ? count - 1 - $1 : $1)]) }
        }
        guard number(2, bytes: 2) == 42, let start = number(4, bytes: 4), let count = number(start, bytes: 2),
            count <= entryLimit
        else { return nil }
        var found: Int?
        for index in 0..<count {
            let entry = start + 2 + 12 * index
            guard let name = number(entry, bytes: 2), let kind = number(entry + 2, bytes: 2),
                let values = number(entry + 4, bytes: 4), let value = number(entry + 8, bytes: 2)
            else { return nil }
            if name != orientationTag { continue }
            // The field is valid only if it is a single short number and appears once.
            guard kind == 3, values == 1, (1...8).contains(value), found == nil else { return nil }
            found = value
        }
        return found ?? 1
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
