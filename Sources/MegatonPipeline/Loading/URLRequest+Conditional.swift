internal import Foundation
internal import FoundationNetworking

extension URLRequest {
    /// The request that asks whether an entry still holds (RFC 9111 section 4.3.1); itself where nothing is stored, or
    /// where the entry has no validator.
    func revalidating(_ entry: CachedData?) -> URLRequest {
        guard let metadata = entry?.metadata else { return self }
        var request = self
        if let etag = metadata.etag { request.setValue(etag, forHTTPHeaderField: "If-None-Match") }
        if let date = metadata.lastModified { request.setValue(date, forHTTPHeaderField: "If-Modified-Since") }
        return request
    }

    /// Whether 304 is an answer to it (RFC 9110 section 15.4.5).
    var isConditional: Bool {
        ["If-None-Match", "If-Modified-Since"].contains { value(forHTTPHeaderField: $0) != nil }
    }
}
