public import Foundation

extension ImageDecoders {
    /// Decodes nothing: a picture of one transparent pixel, and the bytes as they came. For what is only passed on.
    public struct Empty: ImageDecoding {
        private let assetType: AssetType?
        private let isProgressive: Bool

        /// - Parameters:
        ///   - assetType: what the container says it is; what the bytes say if nil.
        ///   - isProgressive: whether unfinished bytes are passed on too, as previews.
        public init(assetType: AssetType? = nil, isProgressive: Bool = false) {
            self.assetType = assetType
            self.isProgressive = isProgressive
        }

        /// It takes no time.
        public var isAsynchronous: Bool { false }

        /// - Throws: `.renderFailed` where libvips cannot be used.
        public func decode(_ data: Data) throws -> ImageContainer {
            try VipsRuntime.start()
            guard let container = container(data, isPreview: false) else {
                throw ImagePipeline.Error(.renderFailed, "a picture of one pixel cannot be made.")
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
