public import Foundation
public import FoundationNetworking

/// Encodes an image to bytes: Nuke's protocol. Called on a render thread.
public protocol ImageEncoding: Sendable {
    /// Encodes the pixels of an image. If the result is nil or empty, nothing is stored.
    func encode(_ image: PlatformImage) -> Data?

    /// Encodes an image with access to its container and context.
    func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data?

    /// Encodes an image and may throw the reason of a failure. The pipeline calls this method.
    func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data?
}

extension ImageEncoding {
    public func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data? {
        encode(container.image)
    }

    public func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data? {
        encode(container, context: context)
    }
}

/// The request and response that an image is encoded for.
public struct ImageEncodingContext: Sendable {
    /// The request of the image.
    public var request: ImageRequest
    /// The image to encode.
    public var image: PlatformImage
    /// The response of the origin, if there is one.
    public var urlResponse: URLResponse?

    /// Creates a context.
    public init(request: ImageRequest, image: PlatformImage, urlResponse: URLResponse? = nil) {
        self.request = request
        self.image = image
        self.urlResponse = urlResponse
    }
}
