internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// Responses of the API.
enum APIResponse {
    /// One object as JSON, with the names of fields that the commands print with `--json`.
    static func json(
        _ value: some Encodable,
        _ status: HTTPResponse.Status = .ok,
        headers: HTTPFields = [:]
    ) throws -> Response {
        var headers = headers
        headers[.contentType] = "application/json"
        headers[.cacheControl] = "no-store"
        return Response(
            status: status,
            headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: try data(value)))
        )
    }

    /// JSON in one line.
    static func data(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return try encoder.encode(value)
    }

    /// JSON that another program has written, in one line: between its tokens, a line break is the same as a space.
    static func line(_ json: Data) -> Data {
        let isBreak: (UInt8) -> Bool = { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
        guard json.contains(where: isBreak) else { return json }
        return Data(json.map { isBreak($0) ? UInt8(ascii: " ") : $0 })
    }
}

extension HTTPFields {
    /// Sets a field whose name is valid and not one of those that the library knows.
    mutating func set(_ name: String, _ value: String) { self[.init(name)!] = value }
}

extension Request {
    /// Value of a field whose name is valid and not one of those that the library knows.
    func field(_ name: String) -> String? { headers[.init(name)!] }

    /// Checks the media type of the body.
    ///
    /// - Throws: an error with the status 415 for another type.
    func require(contentType allowed: String...) throws(APIError) {
        let type = headers[.contentType].map { text in
            text.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        }
        if let type, allowed.contains(type) { return }
        throw APIError(
            .unsupportedMediaType,
            "The request's Content-Type is \(type.map { "\"\($0.prefix(128))\"" } ?? "missing"); send "
                + "\(allowed.joined(separator: " or "))."
        )
    }
}
