internal import Foundation

/// An encoded rendition.
struct EncodedImage: Sendable {
    enum Maker {
        case planes, libvips
        /// libvips, after the planes engine failed: the data is damaged, but may still be partly usable.
        case libvipsForPlanes
    }

    let data: Data
    let size: PixelSize
    var maker = Maker.libvips
    /// See ``RenditionResponse/notes``.
    var notes: [String] = []
}
