internal import Foundation

/// Samples of 8 bits in rows, each of which begins at a multiple of 64 bytes, as zimg wants it. Owns its memory.
///
/// Of one render, on its thread.
final class Plane {
    let bytes: UnsafeMutablePointer<UInt8>
    /// From one row to the next, bytes.
    let stride: Int
    let width: Int
    let height: Int

    static let alignment = 64

    /// - Parameter grey: what all samples are; nothing in particular if it is nil.
    /// - Returns: nil where there is no memory.
    init?(width: Int, height: Int, filledWith grey: UInt8? = nil) {
        self.width = width
        self.height = height
        stride = Self.padded(width)
        guard let memory = aligned_alloc(Self.alignment, max(1, stride * height)) else { return nil }
        bytes = memory.assumingMemoryBound(to: UInt8.self)
        if let grey { memset(memory, Int32(grey), stride * height) }
    }

    deinit { free(bytes) }

    static func padded(_ bytes: Int) -> Int { (bytes + alignment - 1) / alignment * alignment }

    /// The same samples upright.
    func turned(_ orientation: EXIFOrientation) -> Plane? {
        if orientation == EXIFOrientation(1) { return self }
        let size = orientation.turned(PixelSize(width: width, height: height))
        guard let upright = Plane(width: size.width, height: size.height) else { return nil }
        // Where the first sample of the upright plane is, and how far it is to the next one of its row and its column.
        let right = orientation.mirrorsColumns ? -1 : 1
        let down = orientation.mirrorsRows ? -stride : stride
        let start = (orientation.mirrorsColumns ? width - 1 : 0) + (orientation.mirrorsRows ? (height - 1) * stride : 0)
        let (acrossStep, downStep) = orientation.swapsAxes ? (down, right) : (right, down)
        for row in 0..<size.height {
            let out = upright.bytes + row * upright.stride
            var source = bytes + (start + row * downStep)
            for column in 0..<size.width {
                out[column] = source.pointee
                source += acrossStep
            }
        }
        return upright
    }

    /// A plane with what a table of 256 has for each sample.
    func mapped(_ table: [UInt8]) -> Plane? {
        guard let result = Plane(width: width, height: height) else { return nil }
        table.withUnsafeBufferPointer { table in
            for row in 0..<height {
                let (source, out) = (bytes + row * stride, result.bytes + row * stride)
                for column in 0..<width { out[column] = table[Int(source[column])] }
            }
        }
        return result
    }
}
