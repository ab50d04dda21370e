package import Foundation
package import FoundationNetworking

/// Head of a response as it is stored: without header fields that belong to one client.
package struct StoredResponse: Sendable, Codable, Equatable {
    var status: Int
    /// Names in lower case.
    package var headers: [String: String]
    /// Time of storage, seconds since 1970.
    package var stored: Double?
    /// Remaining freshness lifetime when it was stored, seconds.
    package var lifetime: Double?

    package init(_ response: HTTPURLResponse) {
        status = response.statusCode
        headers = response.lowercasedHeaders
        for name in ["set-cookie", "set-cookie2", "authorization", "www-authenticate"] { headers[name] = nil }
    }

    package func response(for url: URL) -> HTTPURLResponse? {
        HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: headers)
    }
}

extension StoredResponse {
    /// One blob for caches of plain bytes.
    package func encoded(with body: Data) throws -> Data { try BlobFormat.response.encode(self, body) }

    /// Decodes a blob; nil, as for a cache miss, if it has another format, is cut short, damaged or of another version.
    package static func decode(_ blob: Data) -> (head: StoredResponse, body: Data)? {
        BlobFormat.response.decode(StoredResponse.self, from: blob).map { ($0.header, Data($0.body)) }
    }
}
