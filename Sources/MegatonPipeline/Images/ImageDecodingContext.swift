public import Foundation
public import FoundationNetworking

/// The facts by which a decoder is chosen.
public struct ImageDecodingContext: Sendable {
    public var request: ImageRequest
    /// All bytes, or those received so far.
    public var data: Data
    public var isCompleted: Bool
    public var urlResponse: URLResponse?
    public var cacheType: ImageResponse.CacheType?
    /// Policy for previews before all bytes have arrived; nil is `ImagePipeline.PreviewPolicy.default(for:)`.
    public var previewPolicy: ImagePipeline.PreviewPolicy?

    public init(
        request: ImageRequest,
        data: Data,
        isCompleted: Bool = true,
        urlResponse: URLResponse? = nil,
        cacheType: ImageResponse.CacheType? = nil,
        previewPolicy: ImagePipeline.PreviewPolicy? = nil
    ) {
        self.request = request
        self.data = data
        self.isCompleted = isCompleted
        self.urlResponse = urlResponse
        self.cacheType = cacheType
        self.previewPolicy = previewPolicy
    }
}
