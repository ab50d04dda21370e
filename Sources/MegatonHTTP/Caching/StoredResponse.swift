package import Foundation
package import FoundationNetworking

/// Head of a response as it is stored: without header fields that belong to one client.
package struct StoredResponse: Sendable, Codable, Equatable {
    package var status: Int
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
    /// One blob for caches of plain bytes: `L1`, the head's length (4 bytes, little endian), the head as JSON, the
    /// body.
    package func encoded(with body: Data) throws -> Data {
        let json = try JSONEncoder().encode(self)
        var blob = Data("L1".utf8)
        withUnsafeBytes(of: UInt32(json.count).littleEndian) { blob.append(contentsOf: $0) }
        return blob + json + body
    }

    /// Decodes a blob; nil, as for a cache miss, if it has another format or is truncated.
    package static func decode(_ blob: Data) -> (head: StoredResponse, body: Data)? {
        let start = blob.prefix(6)
        guard start.count == 6, start.starts(with: Data("L1".utf8)) else { return nil }
        let length = start.dropFirst(2).enumerated().reduce(0) { $0 | Int($1.element) << (8 * $1.offset) }
        guard blob.count >= 6 + length else { return nil }
        let json = Data(blob.dropFirst(6).prefix(length))
        // Written by another version, or damaged: a cache miss.
        guard let head = try? JSONDecoder().decode(StoredResponse.self, from: json) else { return nil }
        return (head, Data(blob.dropFirst(6 + length)))
    }
}
