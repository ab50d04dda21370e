package import Foundation

extension Rendition {
    /// A text or an image that is drawn on a rendition.
    public struct Watermark: Sendable, Hashable {
        /// The drawn text or image.
        public enum Content: Sendable, Hashable {
            /// White text with a dark halo, at most 256 characters in one line, in the sans-serif font of the system.
            case text(String)
            /// The name of a file among the watermarks of the pipeline: `ImagePipeline.Configuration.watermarks`.
            case image(String)
        }

        /// The place on the image.
        public enum Position: String, WordChoice {
            case center, north, east, south, west
            case northEast = "northeast"
            case southEast = "southeast"
            case southWest = "southwest"
            case northWest = "northwest"
            /// Covers the whole image with copies, from the top left.
            case `repeat`

            public static let aliases: [String: Position] = ["centre": .center]

            /// The offset within the free space, in halves of it: see `Gravity.halves`. Nil for ``repeat``.
            var halves: (horizontal: Int, vertical: Int)? { Gravity(word: rawValue)?.halves }
        }

        /// The text, or the name of the image.
        public var content: Content
        /// The place on the image.
        public var position: Position
        /// 0 is invisible, 1 opaque.
        public var opacity: Double
        /// Width as a fraction of the result's width, 0.01 to 1; nil for the natural size: that of the image, or 24
        /// pixels for text. A watermark that does not fit within the result and its margin is made smaller.
        public var scale: Double?
        /// Distance from the edges in pixels of the result, or between the copies of ``Position/repeat``.
        public var margin: Int
        /// Shift from the place, beside `margin`: inwards from the left or right edge, or to the right from the middle.
        /// For ``Position/repeat``, space between the copies, with half of it before the first one.
        ///
        /// Pixels of the result, or a fraction of its width if it is between -1 and 1. No shift moves all of the
        /// watermark out of the result.
        public var x = 0.0
        /// Like `x`: inwards from the upper or lower edge, or down from the middle; fractions are those of the height.
        public var y = 0.0
        /// The image, once a pipeline has resolved its name; not part of the JSON.
        package var overlay: WatermarkPixels?

        /// Creates a watermark. Options without a parameter here are set on the value.
        public init(
            _ content: Content,
            position: Position = .southEast,
            opacity: Double = 1,
            scale: Double? = nil,
            margin: Int = 0
        ) {
            self.content = content
            self.position = position
            self.opacity = opacity
            self.scale = scale
            self.margin = margin
        }

        /// Maximum length of a text, in Unicode scalars.
        static let maximumText = 256

        /// The value for identities. The content is last, so that a text cannot imitate another field. An image is
        /// known by its bytes, so that a changed file is another watermark.
        package var identity: String {
            let size = scale.map { "\($0)" } ?? "natural"
            // Without a shift as before there was one, so that stored renditions keep their keys.
            let shift = x == 0 && y == 0 ? "" : ",\(x):\(y)"
            let start = "\(position.rawValue),\(opacity),\(size),\(margin)\(shift)"
            return switch content {
            case .text(let text): "\(start),text:\(text)"
            case .image(let name): start + (overlay.map { ",sha256:\($0.digest)" } ?? ",image:\(name)")
            }
        }
    }
}

/// The pixels of a watermark's image.
package final class WatermarkPixels: Sendable, Hashable {
    /// SHA-256 of the file, in hex.
    package let digest: String
    package let size: PixelSize
    /// 1 to 4; as in `PlatformImage`.
    let bands: Int
    /// Rows from the top, 8 bits for each channel.
    let pixels: Data

    package init(digest: String, size: PixelSize, bands: Int, pixels: Data) {
        self.digest = digest
        self.size = size
        self.bands = bands
        self.pixels = pixels
    }

    package static func == (one: WatermarkPixels, other: WatermarkPixels) -> Bool { one.digest == other.digest }

    package func hash(into hasher: inout Hasher) { hasher.combine(digest) }
}
