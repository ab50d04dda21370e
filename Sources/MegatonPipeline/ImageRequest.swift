public import Foundation

/// What is to be fetched, and what it is called in the caches.
public struct ImageRequest: Sendable, Hashable {
    /// `http:`, `https:`, `file:` or `data:`.
    public var url: URL
    /// Additional header fields of the request to the origin.
    public var headers: [String: String]
    /// Whose credentials are used: part of what is fetched, so that nobody is handed what another may see.
    public var credentialScope: String?
    /// The name in the caches, in the place of the URL: for presigned URLs that change with each request.
    public var imageID: String?

    public init(
        url: URL,
        headers: [String: String] = [:],
        credentialScope: String? = nil,
        imageID: String? = nil
    ) {
        self.url = url
        self.headers = headers
        self.credentialScope = credentialScope
        self.imageID = imageID
    }
}
