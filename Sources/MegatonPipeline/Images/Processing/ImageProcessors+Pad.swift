extension ImageProcessors {
    /// Places an image on a larger canvas. If a side exceeds the canvas, the canvas grows with it: nothing is cropped.
    public struct Pad: ImageProcessing, Hashable {
        private let size: PixelSize
        private let gravity: Rendition.Gravity
        private let background: Color?

        /// - Parameters:
        ///   - size: Size of the canvas, in pixels.
        ///   - gravity: Position of the image: the center, an edge or a corner.
        ///   - background: Color around the image; nil is transparent.
        public init(size: PixelSize, gravity: Rendition.Gravity = .center, background: Color? = nil) {
            self.size = size
            self.gravity = gravity
            self.background = background
        }

        public var identifier: String {
            ImageProcessors.identifier(
                "pad",
                ["s": "\(size)", "gravity": gravity.rawValue, "background": background.name]
            )
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? padded(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid size or gravity, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try padded($0, context.bounds) }
        }

        private func padded(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard size.width > 0, size.height > 0 else {
                throw ImageProcessors.failure(identifier, "the sides must be above 0")
            }
            guard let halves = gravity.halves else {
                throw ImageProcessors.failure(
                    identifier,
                    "the gravity \(gravity.rawValue) is by content; name an edge, a corner or center"
                )
            }
            let canvas = PixelSize(
                width: max(size.width, image.size.width),
                height: max(size.height, image.size.height)
            )
            try bounds.checkOutput(Double(canvas.width), Double(canvas.height), identifier)
            if canvas == image.size { return image }
            let left = (canvas.width - image.size.width) * halves.horizontal / 2
            let top = (canvas.height - image.size.height) * halves.vertical / 2
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let (base, values) = try pixels.ready(for: background)
                return try base.placed(left, top, on: canvas, values)
            }
        }
    }
}

extension VipsImage {
    /// The image with the bands that the background color needs, and the color's value for each band; nil is
    /// transparent.
    func ready(for background: Color?) throws(VipsError) -> (VipsImage, [Double]) {
        guard let background else {
            let pixels = try withAlpha()
            return (pixels, [Double](repeating: 0, count: pixels.bands))
        }
        let pixels = background.isGray ? self : try inColor()
        return (pixels, background.channels(gray: pixels.bands <= 2) + (pixels.hasAlpha ? [255] : []))
    }
}
