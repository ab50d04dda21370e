public import Foundation
public import FoundationNetworking

/// What a decoder is chosen by.
public struct ImageDecodingContext: Sendable {
    public var request: ImageRequest
    /// All bytes, or those that have come so far.
    public var data: Data
    public var isCompleted: Bool
    public var urlResponse: URLResponse?
    public var cacheType: ImageResponse.CacheType?

    public init(
        request: ImageRequest,
        data: Data,
        isCompleted: Bool = true,
        urlResponse: URLResponse? = nil,
        cacheType: ImageResponse.CacheType? = nil
    ) {
        self.request = request
        self.data = data
        self.isCompleted = isCompleted
        self.urlResponse = urlResponse
        self.cacheType = cacheType
    }
}
