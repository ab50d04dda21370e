internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// An error as a response (RFC 9457, "Problem Details for HTTP APIs").
struct ProblemDocument: Encodable {
    static let contentType = "application/problem+json"

    /// The problem has no type of its own: the status says which it is.
    private let type = "about:blank"
    private let title: String
    private let status: Int
    /// A sentence for people: what happened, and what to do next.
    private let detail: String

    init(_ status: HTTPResponse.Status, _ detail: String) {
        title = status.reasonPhrase
        self.status = status.code
        self.detail = detail
    }

    /// The answer to bytes that are no request. The limit is that of the framework.
    static let invalidRequest = ProblemDocument(
        .badRequest,
        "The request is not valid HTTP, has not exactly one header Host, or has more than 80 KiB of headers. Correct "
            + "it, and send it on a new connection: this one is closed."
    )

    /// The document in one line.
    func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    /// - Parameter headers: further headers of the response.
    func response(_ headers: HTTPFields = [:]) throws -> Response {
        var headers = headers
        headers[.contentType] = Self.contentType
        // Another token, or the same one a minute later, can have another answer.
        headers[.cacheControl] = "no-store"
        return Response(
            status: HTTPResponse.Status(code: status, reasonPhrase: title),
            headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: try json()))
        )
    }
}
