/// How a stored picture is to be turned and mirrored to be upright, in the axes of what is stored: EXIF's eight cases (CIPA
/// DC-008 section 4.6.4).
struct EXIFOrientation: Sendable, Equatable {
    /// Whether stored rows are upright columns.
    let swapsAxes: Bool
    /// Whether stored columns go from the upright right, or bottom, to its left, or top.
    let mirrorsColumns: Bool
    /// Whether stored rows go from the upright bottom, or right, to its top, or left.
    let mirrorsRows: Bool

    /// - Parameter value: 1 to 8; others are 1.
    init(_ value: Int) {
        swapsAxes = (5...8).contains(value)
        mirrorsColumns = [2, 3, 7, 8].contains(value)
        mirrorsRows = [3, 4, 6, 7].contains(value)
    }

    /// A size as stored, of an upright one, or the other way round.
    func turned(_ size: PixelSize) -> PixelSize {
        swapsAxes ? PixelSize(width: size.height, height: size.width) : size
    }
}
