internal import Foundation
internal import FoundationNetworking

extension HTTPURLResponse {
    /// Header fields by lower-case name.
    package var lowercasedHeaders: [String: String] {
        var headers: [String: String] = [:]
        for (name, value) in allHeaderFields {
            if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
        }
        return headers
    }

    /// Content encoding of the body, truncated to 64 characters; nil if there is none.
    package var bodyEncoding: String? {
        let codings = HTTPFieldList.elements(lowercasedHeaders["content-encoding"] ?? "")
            .filter { $0.lowercased() != "identity" }
        return codings.isEmpty ? nil : String(codings.joined(separator: ", ").prefix(64))
    }

    /// Media type that the origin declared, truncated to the length of the longest valid type.
    package var mediaType: String? {
        lowercasedHeaders["content-type"].map { String($0.prefix(HTTPStatusError.maximumType)) }
    }
}
