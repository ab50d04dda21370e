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
