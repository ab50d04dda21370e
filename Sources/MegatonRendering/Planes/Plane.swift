internal import Foundation

/// Samples of 8 bits in rows, each aligned to 64 bytes: see `PlaneRow`. Owns its memory.
///
/// Used by one render on one thread.
final class Plane {
    let bytes: UnsafeMutablePointer<UInt8>
    /// Distance between rows, in bytes.
    let stride: Int
    let width: Int
    let height: Int

    /// Allocates samples, all of the given value or uninitialized.
    ///
    /// - Returns: nil if there is no memory.
    init?(width: Int, height: Int, filledWith gray: UInt8? = nil) {
        self.width = width
        self.height = height
        stride = PlaneRow.padded(width)
        guard let memory = aligned_alloc(PlaneRow.alignment, max(1, stride * height)) else { return nil }
        bytes = memory.assumingMemoryBound(to: UInt8.self)
        if let gray { memset(memory, Int32(gray), stride * height) }
    }

    deinit { free(bytes) }

    /// Fills the plane with the beginnings of rows.
    ///
    /// - Parameters:
    ///   - samples: has at least as many rows, and as many samples in each.
    ///   - start: the first sample of the first row.
    ///   - rowLength: samples between the beginnings of rows.
    func copy(_ samples: [UInt8], from start: Int, stride rowLength: Int) {
        precondition(rowLength >= width && start + rowLength * height <= samples.count)
        samples.withUnsafeBufferPointer { samples in
            for row in 0..<height {
                let source = samples.baseAddress.map { $0 + start + row * rowLength }
                if let source { (bytes + row * stride).update(from: source, count: width) }
            }
        }
    }

    /// The same samples, turned upright.
    func turned(_ orientation: EXIFOrientation) -> Plane? {
        if orientation == EXIFOrientation(1) { return self }
        let size = orientation.turned(PixelSize(width: width, height: height))
        guard let upright = Plane(width: size.width, height: size.height) else { return nil }
        // Offset of the first sample of the upright plane, and the distances to the next sample in its row and in its
        // column.
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

    /// Applies a lookup table of 256 entries to each sample.
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

/// A luma plane with two chroma planes, a luma plane alone, or the channels of pixels.
struct PlanarImage {
    /// Luma samples that belong to the image, in a row. A fraction if a decoder has shrunk the image; the plane may
    /// have more samples.
    let width: Double
    /// Luma samples that belong to the image, in a column.
    let height: Double
    let sampling: ChromaSampling
    let planes: [Plane]
    var colors = PlanarColors.full

    /// Size in pixels. Exact for scaled images, which have no fractions.
    var size: PixelSize { PixelSize(width: Int(width), height: Int(height)) }
}

extension SmallImage {
    /// Samples decoded planes, and turns the result upright.
    init(_ image: PlanarImage, _ orientation: EXIFOrientation) {
        let whole = PixelSize(width: max(1, Int(image.width.rounded())), height: max(1, Int(image.height.rounded())))
        let size = Self.size(of: whole)
        let planes = image.planes.enumerated().map { index, plane in
            let horizontal = index == 0 ? 1 : image.sampling.horizontal
            let vertical = index == 0 ? 1 : image.sampling.vertical
            // Decoded blocks have samples beyond the edge of the image.
            let width = min(plane.width, max(1, Int((image.width / Double(horizontal)).rounded())))
            let height = min(plane.height, max(1, Int((image.height / Double(vertical)).rounded())))
            // Two samples of color are enough.
            let taps = index == 0 || image.colors == .channels ? Self.taps : Self.taps / 2
            return Self.average(
                plane.bytes,
                rowBytes: plane.stride,
                width: width,
                bands: 1,
                Taps(from: width, to: size.width, atMost: taps),
                Taps(from: height, to: size.height, atMost: taps)
            )
        }
        let stored = SmallImage(size, Self.pixels(planes, image.colors))
        self = orientation == EXIFOrientation(1) ? stored : stored.turned(orientation)
    }

    /// RGB and alpha of averaged planes.
    private static func pixels(_ planes: [[UInt8]], _ colors: PlanarColors) -> [UInt8] {
        switch colors {
        case .full: return converted(planes)
        case .video:
            return converted(
                planes.enumerated().map { index, plane in
                    let table = index == 0 ? SampleRange.fullLuma : SampleRange.fullColor
                    return plane.map { table[Int($0)] }
                }
            )
        case .channels: return joined(planes)
        }
    }

    /// RGB and alpha of channels, which are multiplied by alpha.
    private static func joined(_ planes: [[UInt8]]) -> [UInt8] {
        let alpha = planes.count % 2 == 0 ? planes.last : nil
        var pixels: [UInt8] = []
        pixels.reserveCapacity(planes[0].count * 4)
        for index in planes[0].indices {
            let weight = Int(alpha?[index] ?? 255)
            for band in 0..<3 {
                let value = Int(planes[planes.count > 2 ? band : 0][index])
                pixels.append(weight == 0 ? 0 : UInt8(min(255, (value * 255 + weight / 2) / weight)))
            }
            pixels.append(UInt8(weight))
        }
        return pixels
    }
}
