internal import Foundation
internal import FoundationNetworking

// Requests whose response answers only their caller (RFC 9110 sections 9, 13 and 14). Such a request is neither looked up
// nor stored, joins no other request, and its failure is not remembered: a plain request for the same URL would get a
// part of the body, or a 304 that it did not ask for.
extension URLRequest {
    /// Header fields, in lower case, that ask for a part of the body or make the request conditional.
    static let exclusiveFields: Set<String> = [
        "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range",
    ]

    /// Whether the response answers this caller only: any method but GET, a range, or a condition.
    var isExclusive: Bool {
        if !isGET { return true }
        guard let fields = allHTTPHeaderFields, !fields.isEmpty else { return false }
        return fields.keys.contains { Self.exclusiveFields.contains($0.lowercased()) }
    }

    /// Whether the request may change what is stored at its URL (RFC 9110 section 9.2.1). A method that is not known to
    /// be safe is not.
    var isUnsafe: Bool { !Self.safeMethods.contains((httpMethod ?? "GET").uppercased()) }

    private var isGET: Bool { (httpMethod ?? "GET").uppercased() == "GET" }

    /// From the registry of methods, with QUERY.
    private static let safeMethods: Set<String> = [
        "GET", "HEAD", "OPTIONS", "PRI", "PROPFIND", "QUERY", "REPORT", "SEARCH", "TRACE",
    ]
}
