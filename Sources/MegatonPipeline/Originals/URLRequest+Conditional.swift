internal import Foundation
internal import FoundationNetworking

extension URLRequest {
    /// A request that revalidates an entry (RFC 9111 section 4.3.1); the request itself if there is no entry, or if it
    /// has no validator.
    func revalidating(_ entry: CachedData?) -> URLRequest {
        guard let metadata = entry?.metadata else { return self }
        var request = self
        if let etag = metadata.etag { request.setValue(etag, forHTTPHeaderField: "If-None-Match") }
        if let date = metadata.lastModified { request.setValue(date, forHTTPHeaderField: "If-Modified-Since") }
        return request
    }
}
