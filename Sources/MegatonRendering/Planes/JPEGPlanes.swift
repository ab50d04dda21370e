internal import CCodecs
internal import Foundation

/// Encodes planes as JPEG.
enum JPEGPlanes {
    /// Luma samples up to which Huffman codes are made for an image of one scan. They save 5 % of the bytes of 256 x
    /// 192 pixels, and less of a larger image, as its data is larger beside them; the encoding takes twice as long.
    static let mostOptimized = 512 * 512

    /// Encodes the planes of an upright image.
    ///
    /// - Returns: nil if there is no memory, if the planes do not cover the image, if a side has more than the 65,500
    ///   pixels that libjpeg allows, or if the deadline stopped it.
    static func encode(_ image: PlanarImage, _ rendition: Rendition, _ deadline: RenderDeadline) -> Data? {
        let size = image.size
        let (across, down) = (image.sampling.horizontal, image.sampling.vertical)
        let chroma = PixelSize(width: (size.width + across - 1) / across, height: (size.height + down - 1) / down)
        let isCovered = image.planes.enumerated().allSatisfy { index, plane in
            let least = index == 0 ? size : chroma
            return plane.width >= least.width && plane.height >= least.height
        }
        guard isCovered, image.planes.count == image.sampling.planes else { return nil }
        let tables = JPEGQuantization(quality: rendition.quality, image.sampling)
        var length = 0
        let bytes = withExtendedLifetime((deadline, image.planes)) {
            tables.luma.withUnsafeBufferPointer { luma in
                tables.chroma.withUnsafeBufferPointer { chroma -> UnsafeMutablePointer<UInt8>? in
                    guard let luma = luma.baseAddress, let chroma = chroma.baseAddress else { return nil }
                    var form = megaton_jpeg_form(
                        width: Int32(size.width),
                        height: Int32(size.height),
                        planes: Int32(image.planes.count),
                        horizontal: Int32(across),
                        vertical: Int32(down),
                        luma: luma,
                        chroma: chroma,
                        is_progressive: rendition.progressive ? 1 : 0,
                        is_optimized: size.width * size.height <= mostOptimized ? 1 : 0
                    )
                    let pointers = image.planes.map { UnsafePointer($0.bytes) }
                    return megaton_jpeg_encode(
                        &form,
                        pointers,
                        image.planes.map(\.stride),
                        RenderDeadline.isExpired,
                        Unmanaged.passUnretained(deadline).toOpaque(),
                        &length
                    )
                }
            }
        }
        guard let bytes else { return nil }
        return Data(bytesNoCopy: bytes, count: length, deallocator: .free)
    }
}
