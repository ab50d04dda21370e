internal import Foundation
internal import FoundationNetworking

/// An answer's head as it is written down: without what belongs to one client alone.
struct StoredResponse: Sendable, Codable, Equatable {
    var status: Int
    /// Names in lower case.
    var headers: [String: String]
    /// Seconds since 1970.
    var stored: Double?
    /// Seconds for which it may be used without asking the origin.
    var lifetime: Double?

    init(_ response: HTTPURLResponse) {
        status = response.statusCode
        headers = response.lowercasedHeaders
        for name in ["set-cookie", "set-cookie2", "authorization", "www-authenticate"] { headers[name] = nil }
    }

    func response(for url: URL) -> HTTPURLResponse? {
        HTTPURLResponse(url: url, statusCode: status, httpVersion: nil, headerFields: headers)
    }
}

extension StoredResponse {
    /// One blob for caches that know nothing but bytes: `L1`, the head's length (4 bytes, little endian), the head as
    /// JSON, the body.
    func encoded(with body: Data) throws -> Data {
        let json = try JSONEncoder().encode(self)
        var blob = Data("L1".utf8)
        withUnsafeBytes(of: UInt32(json.count).littleEndian) { blob.append(contentsOf: $0) }
        return blob + json + body
    }

    /// Nil where the blob is not one of ours, or cut short: a miss.
    static func decode(_ blob: Data) -> (head: StoredResponse, body: Data)? {
        let start = blob.prefix(6)
        guard start.count == 6, start.starts(with: Data("L1".utf8)) else { return nil }
        let length = start.dropFirst(2).enumerated().reduce(0) { $0 | Int($1.element) << (8 * $1.offset) }
        guard blob.count >= 6 + length else { return nil }
        let json = Data(blob.dropFirst(6).prefix(length))
        // Another version's, or damaged: a miss.
        guard let head = try? JSONDecoder().decode(StoredResponse.self, from: json) else { return nil }
        return (head, Data(blob.dropFirst(6 + length)))
    }
}
