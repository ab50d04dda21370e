internal import Foundation
internal import FoundationNetworking

// Requests whose response is for their caller only (RFC 9110 sections 9, 13 and 14). Their responses are neither looked
// up nor stored, they do not coalesce, and their failures are not remembered: otherwise a plain request for the same
// URL might get a part of the body, or a 304 that it did not ask for.
extension URLRequest {
    /// Header fields, in lower case, that ask for a part of the body or make the request conditional.
    package static let exclusiveFields: Set<String> = [
        "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range",
    ]

    /// Whether the response is for this caller only: any method but GET, a range, or a condition.
    package var isExclusive: Bool {
        if !isGET { return true }
        guard let fields = allHTTPHeaderFields, !fields.isEmpty else { return false }
        return fields.keys.contains { Self.exclusiveFields.contains($0.lowercased()) }
    }

    /// Whether the request may change the resource at its URL (RFC 9110 section 9.2.1). A method that is not known to
    /// be safe counts as unsafe.
    package var isUnsafe: Bool { !Self.safeMethods.contains((httpMethod ?? "GET").uppercased()) }

    private var isGET: Bool { (httpMethod ?? "GET").uppercased() == "GET" }

    /// Safe methods of the IANA registry, with QUERY.
    private static let safeMethods: Set<String> = [
        "GET", "HEAD", "OPTIONS", "PRI", "PROPFIND", "QUERY", "REPORT", "SEARCH", "TRACE",
    ]
}

extension URLRequest {
    /// Whether a 304 may answer the request (RFC 9110 section 15.4.5).
    package var isConditional: Bool {
        ["If-None-Match", "If-Modified-Since"].contains { value(forHTTPHeaderField: $0) != nil }
    }
}
