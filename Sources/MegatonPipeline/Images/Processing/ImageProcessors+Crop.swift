extension ImageProcessors {
    /// Crops an image without scaling it. A side that is shorter than the crop stays as it is.
    public struct Crop: ImageProcessing, Hashable {
        private enum Anchor: Hashable {
            case gravity(Rendition.Gravity)
            case focus(Rendition.FocalPoint)

            var name: String {
                switch self {
                case .gravity(let gravity): gravity.rawValue
                case .focus(let point): "\(point.x):\(point.y)"
                }
            }
        }

        private let size: PixelSize
        private let anchor: Anchor

        /// - Parameters:
        ///   - size: Size of the crop, in pixels.
        ///   - gravity: Region to keep: at an edge or corner, or by content (the most salient, or the most detailed).
        public init(size: PixelSize, gravity: Rendition.Gravity = .center) {
            self.size = size
            anchor = .gravity(gravity)
        }

        /// - Parameters:
        ///   - size: Size of the crop, in pixels.
        ///   - focus: Center of the crop, shifted as needed to stay within the image.
        public init(size: PixelSize, focus: Rendition.FocalPoint) {
            self.size = size
            anchor = .focus(focus)
        }

        public var identifier: String {
            ImageProcessors.identifier("crop", ["s": "\(size)", "place": anchor.name])
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? cropped(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid size or point, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try cropped($0, context.bounds) }
        }

        private func cropped(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard size.width > 0, size.height > 0 else {
                throw ImageProcessors.failure(identifier, "the sides must be above 0")
            }
            if case .focus(let point) = anchor, !(0...1).contains(point.x) || !(0...1).contains(point.y) {
                throw ImageProcessors.failure(identifier, "the coordinates of the focal point must be 0 to 1")
            }
            let part = PixelSize(
                width: min(size.width, image.size.width),
                height: min(size.height, image.size.height)
            )
            if part == image.size { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let (left, top) = try origin(of: part, in: pixels)
                return try pixels.extract(left, top, part)
            }
        }

        private func origin(of part: PixelSize, in pixels: VipsImage) throws(VipsError) -> (left: Int, top: Int) {
            let free = (width: pixels.width - part.width, height: pixels.height - part.height)
            switch anchor {
            case .focus(let point):
                let x = Int((point.x * Double(pixels.width) - Double(part.width) / 2).rounded())
                let y = Int((point.y * Double(pixels.height) - Double(part.height) / 2).rounded())
                return (min(max(0, x), free.width), min(max(0, y), free.height))
            case .gravity(let gravity):
                guard let halves = gravity.halves else {
                    return try pixels.interestingPlace(part, byEntropy: gravity == .entropy)
                }
                return (free.width * halves.horizontal / 2, free.height * halves.vertical / 2)
            }
        }
    }
}
