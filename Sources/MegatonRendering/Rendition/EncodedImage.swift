package import Foundation

/// An encoded rendition.
package struct EncodedImage: Sendable {
    package enum Maker {
        case planes, libvips
        /// libvips, after the planes engine failed: the data is damaged, but may still be partly usable.
        case libvipsForPlanes
    }

    package let data: Data
    package let size: PixelSize
    /// See ``RenditionResponse/score``.
    package var score: Double?
    package var maker = Maker.libvips
    /// See ``RenditionResponse/notes``.
    package var notes: [String] = []
    /// Facts about the pixels of the source, which the engine sampled while it rendered.
    package var pixels: PixelFacts?
    /// Facts about the source; `RenderEngine.execute` sets them.
    package var facts: SourceFacts?
}

/// Limits on the remarks about a render, which are stored in caches and ledgers.
package enum RenderNotes {
    /// Maximum number of remarks on one image, or on the images of one job. Public comments name the number.
    package static let maximumCount = 8
    /// Maximum length of a remark in characters.
    package static let maximumLength = 300

    /// The beginning of the remark on an image that was rendered although it is damaged.
    static let damage = "the image is damaged, and rendered as far as it goes"

    /// Whether the remarks say that an image was rendered although it is damaged.
    package static func nameDamage(_ notes: [String]?) -> Bool { notes?.contains { $0.hasPrefix(damage) } ?? false }

    /// Both lists without duplicates, each remark truncated to the limit.
    package static func merged(_ notes: [String], _ more: [String]) -> [String] {
        var merged = notes
        for note in more.map({ String($0.prefix(maximumLength)) }) where merged.count < maximumCount {
            if !merged.contains(note) { merged.append(note) }
        }
        return merged
    }
}
