internal import Foundation

/// The part of a GIF's canvas that its first frame does not cover, which is transparent. libvips gives a GIF an alpha
/// channel only if one of its frames declares a transparent color, and shows the uncovered part as black otherwise.
enum GIFCanvas {
    /// An image of one transparent pixel that leaves the canvas as it is (GIF89a sections 20 to 23).
    private static let emptyFrame: [UInt8] =
        [0x21, 0xF9, 4, 0b0000_0101, 0, 0, 0, 0] + [0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0x80] + [0, 0, 0, 0, 0, 0]
        + [2, 2, 0x44, 0x01, 0]

    /// Inserts an empty frame before the first one.
    ///
    /// - Returns: The extended GIF; nil if nothing stays uncovered, or if a frame declares a transparent color anyway.
    static func startingEmpty(_ gif: Data) -> Data? {
        let start: Int? = gif.withUnsafeBytes { bytes in
            var walk = Walk(bytes)
            return walk.leavesGap() ? walk.tablesEnd : nil
        }
        guard let start else { return nil }
        var extended = Data(capacity: gif.count + emptyFrame.count)
        extended += gif.prefix(start)
        extended += emptyFrame
        extended += gif.dropFirst(start)
        return extended
    }

    /// Walks the GIF's blocks. Each step consumes at least one byte.
    private struct Walk {
        let bytes: UnsafeRawBufferPointer
        /// Offset of the first byte after the global color table.
        let tablesEnd: Int
        private var index: Int

        init(_ bytes: UnsafeRawBufferPointer) {
            self.bytes = bytes
            let hasTable = bytes.count > 10 && bytes[10] & 0x80 != 0
            tablesEnd = 13 + (hasTable ? 3 << (Int(bytes[10] & 7) + 1) : 0)
            index = tablesEnd
        }

        private func number(_ offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }

        mutating func leavesGap() -> Bool {
            guard bytes.count > tablesEnd else { return false }
            var canvas = (width: number(6), height: number(8))
            var first: (left: Int, top: Int, right: Int, bottom: Int)?
            var isTransparent = false
            while index < bytes.count {
                switch bytes[index] {
                case 0x21:
                    guard index + 3 < bytes.count else { return gap(first, canvas) }
                    if bytes[index + 1] == 0xF9, bytes[index + 2] >= 1 { isTransparent = bytes[index + 3] & 1 == 1 }
                    index += 2
                    guard skipBlocks() else { return gap(first, canvas) }
                case 0x2C:
                    guard index + 10 < bytes.count else { return gap(first, canvas) }
                    let (left, top) = (number(index + 1), number(index + 3))
                    let (right, bottom) = (left + number(index + 5), top + number(index + 7))
                    let packed = bytes[index + 9]
                    // A frame whose data is cut off counts too: decoders show the part that is present.
                    if first == nil { first = (left, top, right, bottom) }
                    // libnsgif widens the canvas to all frames.
                    canvas = (max(canvas.width, right), max(canvas.height, bottom))
                    index += 11 + (packed & 0x80 != 0 ? 3 << (Int(packed & 7) + 1) : 0)
                    guard skipBlocks() else { return gap(first, canvas) }
                    if isTransparent { return false }
                    isTransparent = false
                default: return gap(first, canvas)
                }
            }
            return gap(first, canvas)
        }

        private func gap(
            _ first: (left: Int, top: Int, right: Int, bottom: Int)?,
            _ canvas: (width: Int, height: Int)
        ) -> Bool {
            guard let first else { return false }
            return first.left > 0 || first.top > 0 || first.right < canvas.width || first.bottom < canvas.height
        }

        /// - Returns: false if the data ends before the block terminator.
        private mutating func skipBlocks() -> Bool {
            while index < bytes.count {
                let length = Int(bytes[index])
                index += 1 + length
                if length == 0 { return true }
            }
            return false
        }
    }
}
