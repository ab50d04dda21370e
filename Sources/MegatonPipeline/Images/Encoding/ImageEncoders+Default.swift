public import Foundation

/// The built-in encoders.
public enum ImageEncoders {}

extension ImageEncoders {
    /// Encodes opaque images as JPEG and others as PNG. An unprocessed GIF keeps its original bytes, with all frames.
    ///
    /// Nuke keeps a GIF's original bytes even if a processor has changed the image.
    public struct Default: ImageEncoding, Hashable {
        private let quality: Int

        /// - Parameter quality: JPEG quality, 1 to 100.
        public init(quality: Int = 80) { self.quality = quality }

        /// Identifies everything that changes a byte; part of cache keys.
        public var identifier: String { "megaton/encoder?default,quality=\(quality)" }

        public func encode(_ image: PlatformImage) -> Data? { encoder(for: image).encode(image) }

        public func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data? {
            try? encoded(container, context: context)  // Nuke's nil cannot carry a reason; `encoded` throws it.
        }

        /// - Throws: `.encodingFailed`, `.renderTimedOut`.
        public func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data? {
            if container.type == .gif, container.image.isAsDecoded, let data = container.data { return data }
            return try encoder(for: container.image).encoded(container.image)
        }

        private func encoder(for image: PlatformImage) -> Vips {
            Vips(format: image.hasAlpha ? .png : .jpeg, quality: quality)
        }
    }
}
