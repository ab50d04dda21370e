public import Foundation

extension ImageProcessors {
    /// Scales an image and optionally crops it, by Nuke's rules.
    ///
    /// One side may be very large, like Nuke's 9999, so that the other side decides. The result must be within the
    /// output limits of `RenderLimits`.
    public struct Resize: ImageProcessing, Hashable, CustomStringConvertible {
        /// Target size, in pixels.
        private let width: Double
        private let height: Double
        private let contentMode: ContentMode
        private let crop: Bool
        private let upscale: Bool

        /// - Parameters:
        ///   - size: Target size, in `unit`.
        ///   - contentMode: Whether the result covers the size or fits within it.
        ///   - crop: Whether to crop the center to exactly the target size. If the image is too small and must not be
        ///     enlarged, the result is its largest part of the target's aspect. No effect for `.aspectFit`.
        ///   - upscale: Whether smaller images are enlarged.
        public init(
            size: CGSize,
            unit: ImageProcessingOptions.Unit = .pixels,
            contentMode: ContentMode = .aspectFill,
            crop: Bool = false,
            upscale: Bool = false
        ) {
            width = unit.pixels(Double(size.width))
            height = unit.pixels(Double(size.height))
            self.contentMode = contentMode
            self.crop = crop
            self.upscale = upscale
        }

        /// Scales to a width and keeps the aspect.
        public init(width: Double, unit: ImageProcessingOptions.Unit = .pixels, upscale: Bool = false) {
            self.init(pixels: unit.pixels(width), Self.open, upscale)
        }

        /// Scales to a height and keeps the aspect.
        public init(height: Double, unit: ImageProcessingOptions.Unit = .pixels, upscale: Bool = false) {
            self.init(pixels: Self.open, unit.pixels(height), upscale)
        }

        /// Placeholder for the side that follows from the other one: Nuke's number.
        private static let open = 9999.0

        private init(pixels width: Double, _ height: Double, _ upscale: Bool) {
            self.width = width
            self.height = height
            contentMode = .aspectFit
            crop = false
            self.upscale = upscale
        }

        public var identifier: String {
            ImageProcessors.identifier(
                "resize",
                [
                    "s": "\(width)x\(height)", "cm": contentMode.rawValue, "crop": "\(crop)", "upscale": "\(upscale)",
                ]
            )
        }

        public var description: String {
            "Resize(size: (\(width), \(height)) pixels, contentMode: \(contentMode), crop: \(crop), upscale: "
                + "\(upscale))"
        }

        public func process(_ image: PlatformImage) -> PlatformImage? { try? resized(image, ProcessingBounds()) }

        /// - Throws: `.processingFailed` for an invalid size, `.outputTooLarge`.
        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try container.map { try resized($0, context.bounds) }
        }

        private func resized(
            _ image: PlatformImage,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            guard width.isFinite, height.isFinite, width > 0, height > 0 else {
                throw ImageProcessors.failure(identifier, "a side must be a number above 0")
            }
            let source = (width: Double(image.size.width), height: Double(image.size.height))
            let ratios = (width / source.width, height / source.height)
            let scale = contentMode == .aspectFill ? max(ratios.0, ratios.1) : min(ratios.0, ratios.1)
            if crop && contentMode == .aspectFill { return try cropped(image, scale, bounds) }
            if scale == 1 || (scale > 1 && !upscale) { return image }
            let scaled = try size(source.width * scale, source.height * scale, bounds)
            if scaled == image.size { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                try pixels.thumbnail(scaled)
            }
        }

        /// Crops before scaling: an image far from the target's aspect would become huge in between.
        private func cropped(
            _ image: PlatformImage,
            _ scale: Double,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PlatformImage {
            let source = image.size
            let isScaled = scale < 1 || upscale
            let factor = isScaled ? scale : max(width / Double(source.width), height / Double(source.height))
            // Size of the crop in source pixels.
            let part = PixelSize(
                width: min(source.width, max(1, Int((width / factor).rounded()))),
                height: min(source.height, max(1, Int((height / factor).rounded())))
            )
            let target = isScaled ? try size(width, height, bounds) : part
            if part == source && target == source { return image }
            return try image.changed(by: identifier, bounds) { pixels throws(VipsError) in
                let middle = try pixels.extract(
                    (source.width - part.width) / 2,
                    (source.height - part.height) / 2,
                    part
                )
                return target == part ? middle : try middle.thumbnail(target)
            }
        }

        private func size(
            _ width: Double,
            _ height: Double,
            _ bounds: ProcessingBounds
        ) throws(ImageError) -> PixelSize {
            try bounds.checkOutput(width.rounded(), height.rounded(), identifier)
            return PixelSize(width: max(1, Int(width.rounded())), height: max(1, Int(height.rounded())))
        }
    }
}
