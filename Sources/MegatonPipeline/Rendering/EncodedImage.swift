internal import Foundation

/// A finished rendition.
struct EncodedImage: Sendable {
    enum Maker {
        case planes, libvips
        /// libvips, of what planes were to make and could not: the data is damaged, and perhaps still shows something.
        case libvipsForPlanes
    }

    let data: Data
    let size: PixelSize
    var maker = Maker.libvips
    /// See ``RenditionResponse/notes``.
    var notes: [String] = []
}
