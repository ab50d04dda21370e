public import Foundation

/// A PNG of any color type and depth, with the filters of its rows (PNG, third edition, section 9).
/// Rows are stored and not compressed.
public struct TestPNG {
    /// Number of the color type: 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGB and alpha.
    public let colorType: UInt8
    /// Bits of a sample: 1, 2, 4, 8 or 16.
    public let depth: Int
    public let width: Int
    public let height: Int
    /// Chunks between IHDR and the rows, in this order.
    public var chunks: [(name: String, content: Data)] = []
    /// Number of chunks that share the rows.
    public var parts = 1
    /// Numbers of the filters that the rows have in turn.
    public var filters: [UInt8] = [0, 1, 2, 3, 4]
    /// Number of the interlace method; the rows are not interlaced.
    public var interlace: UInt8 = 0

    public init(_ colorType: UInt8, depth: Int = 8, width: Int, height: Int) {
        (self.colorType, self.depth, self.width, self.height) = (colorType, depth, width, height)
    }

    private var channels: Int {
        switch colorType {
        case 2: 3
        case 4: 2
        case 6: 4
        default: 1
        }
    }

    /// - Parameter samples: The samples of a pixel as stored, one for each channel, none above the largest of the
    ///   depth.
    public func data(_ samples: (_ x: Int, _ y: Int) -> [Int]) -> Data {
        var rows = Data()
        // A pixel's bytes, at least one: the distance that filters look back.
        let step = max(1, channels * depth / 8)
        var above = [UInt8](repeating: 0, count: (width * channels * depth + 7) / 8)
        for y in 0..<height {
            let row = packed((0..<width).flatMap { samples($0, y) })
            let filter = filters[y % filters.count]
            rows.append(filter)
            for index in row.indices {
                let left = index >= step ? Int(row[index - step]) : 0
                let corner = index >= step ? Int(above[index - step]) : 0
                let predicted = Self.predicted(Int(filter), left, Int(above[index]), corner)
                rows.append(row[index] &- UInt8(predicted))
            }
            above = row
        }
        return data(rows: TestImage.zlib(rows))
    }

    /// - Parameter rows: The content of the chunks IDAT.
    public func data(rows: Data) -> Data {
        let header =
            TestImage.bigEndian(UInt32(width)) + TestImage.bigEndian(UInt32(height))
            + Data([UInt8(depth), colorType, 0, 0, interlace])
        var data = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) + TestImage.chunk("IHDR", header)
        for (name, content) in chunks { data += TestImage.chunk(name, content) }
        let length = (rows.count + parts - 1) / parts
        for start in stride(from: 0, to: rows.count, by: length) {
            data += TestImage.chunk("IDAT", Data(rows.dropFirst(start).prefix(length)))
        }
        return data + TestImage.chunk("IEND", Data())
    }

    private func packed(_ samples: [Int]) -> [UInt8] {
        if depth == 8 { return samples.map { UInt8($0) } }
        if depth == 16 { return samples.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] } }
        let each = 8 / depth
        return stride(from: 0, to: samples.count, by: each).map { start in
            (0..<each).reduce(UInt8(0)) { byte, place in
                let sample = start + place < samples.count ? samples[start + place] : 0
                return byte << depth | UInt8(sample)
            }
        }
    }

    private static func predicted(_ filter: Int, _ left: Int, _ above: Int, _ corner: Int) -> Int {
        switch filter {
        case 1: return left
        case 2: return above
        case 3: return (left + above) / 2
        case 4:
            let sum = left + above - corner
            let distances = (abs(sum - left), abs(sum - above), abs(sum - corner))
            if distances.0 <= distances.1 && distances.0 <= distances.2 { return left }
            return distances.1 <= distances.2 ? above : corner
        default: return 0
        }
    }
}
