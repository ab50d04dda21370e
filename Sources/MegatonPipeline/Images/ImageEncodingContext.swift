public import FoundationNetworking

/// The request and response that an image is encoded for.
public struct ImageEncodingContext: Sendable {
    public var request: ImageRequest
    public var image: PlatformImage
    public var urlResponse: URLResponse?

    public init(request: ImageRequest, image: PlatformImage, urlResponse: URLResponse? = nil) {
        self.request = request
        self.image = image
        self.urlResponse = urlResponse
    }
}
