internal import Crypto

extension ImageProcessors {
    /// Draws an overlay on an image.
    public struct Watermark: ImageProcessing, Hashable {
        private let overlay: PlatformImage
        private let id: String
        private let gravity: Rendition.Gravity
        private let opacity: Double
        private let tile: Bool

        /// - Parameters:
        ///   - overlay: The overlay; scaled down if it is larger than the image.
        ///   - id: Identifies the overlay in cache keys; nil uses a checksum of its pixels.
        ///   - gravity: Position of the overlay: the center, an edge or a corner.
        ///   - opacity: 0 to 1.
        ///   - tile: Whether the overlay is repeated across the whole image, from the top left.
        public init(
            overlay: PlatformImage,
            id: String? = nil,
            gravity: Rendition.Gravity = .southEast,
            opacity: Double = 1,
            tile: Bool = false
        ) {
            self.overlay = overlay
            self.id = id.map { "id:" + $0 } ?? Self.checksum(overlay)
            self.gravity = gravity
            self.opacity = opacity
            self.tile = tile
        }

        public var identifier: String {
            ImageProcessors.identifier(
                "watermark",
                [
                    "overlay": ImageProcessors.text(id), "gravity": gravity.rawValue, "opacity": "\(opacity)",
                    "tile": "\(tile)",
                ]
            )
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? marked(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid gravity or opacity, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try marked($0, context.bounds) }
        }

        public static func == (one: Watermark, other: Watermark) -> Bool { one.identifier == other.identifier }

        public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }

        static func checksum(_ image: PlatformImage) -> String {
            "\(image.size),\(image.bands)," + SHA256.hash(data: image.pixels()).hexDigits
        }

        private func marked(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard (0...1).contains(opacity) else {
                throw ImageProcessors.failure(identifier, "the opacity must be 0 to 1")
            }
            guard let halves = gravity.halves else {
                throw ImageProcessors.failure(
                    identifier,
                    "the gravity \(gravity.rawValue) is by content; name an edge, a corner or center"
                )
            }
            if opacity == 0 { return image }
            let size = fitting(image.size)
            let left = (image.size.width - size.width) * halves.horizontal / 2
            let top = (image.size.height - size.height) * halves.vertical / 2
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let isGray = pixels.bands <= 2 && overlay.bands <= 2
                var mark = size == overlay.size ? overlay.vipsImage : try overlay.vipsImage.thumbnail(size)
                mark = try (isGray ? mark : mark.inColor()).withAlpha().faded(opacity)
                let base = try (isGray ? pixels : pixels.inColor()).withAlpha()
                let result =
                    tile
                    ? try base.covered(by: mark.tiled(image.size), at: 0, 0)
                    : try base.covered(by: mark, at: left, top)
                // An opaque image stays without an alpha channel.
                return image.hasAlpha ? result : try result.opaque()
            }
        }

        private func fitting(_ size: PixelSize) -> PixelSize {
            let scale = min(
                1,
                Double(size.width) / Double(overlay.size.width),
                Double(size.height) / Double(overlay.size.height)
            )
            return PixelSize(
                width: max(1, Int((Double(overlay.size.width) * scale).rounded())),
                height: max(1, Int((Double(overlay.size.height) * scale).rounded()))
            )
        }
    }
}
