public import Foundation

extension ImageDecoders {
    /// Decodes nothing: returns one transparent pixel and the original bytes. For images that are passed through.
    public struct Empty: ImageDecoding {
        private let assetType: AssetType?
        private let isProgressive: Bool

        /// - Parameters:
        ///   - assetType: The container's type; nil detects it from the bytes.
        ///   - isProgressive: Whether partially downloaded bytes are passed on as previews.
        public init(assetType: AssetType? = nil, isProgressive: Bool = false) {
            self.assetType = assetType
            self.isProgressive = isProgressive
        }

        /// Always false: decoding takes no time.
        public var isAsynchronous: Bool { false }

        /// - Throws: `.renderFailed` if libvips cannot be used.
        public func decode(_ data: Data) throws -> ImageContainer {
            try VipsRuntime.start()
            guard let container = container(data, isPreview: false) else {
                throw ImageError(.renderFailed, "an image of one pixel cannot be made.")
            }
            return container
        }

        public func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? {
            isProgressive ? container(data, isPreview: true) : nil
        }

        private func container(_ data: Data, isPreview: Bool) -> ImageContainer? {
            PlatformImage(width: 1, height: 1, bands: 4, pixels: Data(count: 4)).map {
                ImageContainer(image: $0, type: assetType ?? AssetType(data), isPreview: isPreview, data: data)
            }
        }
    }
}
