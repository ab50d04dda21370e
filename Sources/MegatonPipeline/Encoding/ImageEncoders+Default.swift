public import Foundation

extension ImageEncoders {
    /// JPEG of what is opaque, PNG of what is not, and of a GIF that nobody has changed its own bytes, with all frames.
    ///
    /// Nuke gives a GIF's own bytes also for what a processor has made of it.
    public struct Default: ImageEncoding, Hashable {
        private let quality: Int

        /// - Parameter quality: of JPEG, 1 to 100.
        public init(quality: Int = 80) { self.quality = quality }

        /// Everything that changes a byte, to be part of a key.
        public var identifier: String { "megaton/encoder?default,quality=\(quality)" }

        public func encode(_ image: PlatformImage) -> Data? { encoder(for: image).encode(image) }

        public func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data? {
            try? encoded(container, context: context)  // Nuke's nil has no place for a reason; `encoded` tells it.
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
