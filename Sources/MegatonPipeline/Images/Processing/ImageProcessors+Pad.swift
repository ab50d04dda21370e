extension ImageProcessors {
    /// Places an image on a larger canvas. If a side exceeds the canvas, the canvas grows with it: nothing is cropped.
    public struct Pad: ImageProcessing, Hashable {
        /// The size of the canvas, or the pixels on each side.
        private enum Extent: Hashable {
            case canvas(PixelSize, Rendition.Gravity)
            case sides(Rendition.Padding)
        }

        private let extent: Extent
        private let background: Color?

        /// - Parameters:
        ///   - size: Size of the canvas, in pixels.
        ///   - gravity: Position of the image: the center, an edge or a corner.
        ///   - background: Color around the image; nil is transparent.
        public init(size: PixelSize, gravity: Rendition.Gravity = .center, background: Color? = nil) {
            extent = .canvas(size, gravity)
            self.background = background
        }

        /// - Parameters:
        ///   - padding: Pixels that are added on each side.
        ///   - background: Color around the image; nil is transparent.
        public init(_ padding: Rendition.Padding, background: Color? = nil) {
            extent = .sides(padding)
            self.background = background
        }

        public var identifier: String {
            switch extent {
            case .canvas(let size, let gravity):
                ImageProcessors.identifier(
                    "pad",
                    ["s": "\(size)", "gravity": gravity.rawValue, "background": background.name]
                )
            case .sides(let padding):
                ImageProcessors.identifier(
                    "pad",
                    [
                        "sides": "\(padding.top),\(padding.right),\(padding.bottom),\(padding.left)",
                        "background": background.name,
                    ]
                )
            }
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
            let (canvas, left, top) = try placed(image.size)
            try bounds.checkOutput(Double(canvas.width), Double(canvas.height), identifier)
            if canvas == image.size { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let (base, values) = try pixels.ready(for: background)
                return try base.placed(left, top, on: canvas, values)
            }
        }

        /// The canvas, and the place of the image's top left corner on it.
        private func placed(_ image: PixelSize) throws(ImageError) -> (canvas: PixelSize, left: Int, top: Int) {
            switch extent {
            case .canvas(let size, let gravity):
                guard size.width > 0, size.height > 0 else {
                    throw ImageProcessors.failure(identifier, "the sides must be above 0")
                }
                guard let halves = gravity.halves else {
                    throw ImageProcessors.failure(
                        identifier,
                        "the gravity \(gravity.rawValue) is by content; name an edge, a corner or center"
                    )
                }
                let canvas = PixelSize(width: max(size.width, image.width), height: max(size.height, image.height))
                let left = (canvas.width - image.width) * halves.horizontal / 2
                return (canvas, left, (canvas.height - image.height) * halves.vertical / 2)
            case .sides(let padding):
                let sides = [padding.top, padding.right, padding.bottom, padding.left]
                guard sides.allSatisfy((0...Rendition.maximumSide).contains) else {
                    throw ImageProcessors.failure(
                        identifier,
                        "the padding must be 0 to \(Rendition.maximumSide) pixels on each side"
                    )
                }
                let canvas = PixelSize(
                    width: image.width + padding.left + padding.right,
                    height: image.height + padding.top + padding.bottom
                )
                return (canvas, padding.left, padding.top)
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
