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
        json(bytes: ByteBuffer(bytes: try data(value)), status, headers: headers)
    }

    /// - Parameter bytes: a whole JSON value.
    static func json(
        bytes: ByteBuffer,
        _ status: HTTPResponse.Status = .ok,
        headers: HTTPFields = [:]
    ) -> Response {
        var headers = headers
        headers[.contentType] = "application/json"
        // The state of a moment, for the holder of a token.
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: bytes))
    }

    /// A JSON value that may be large; see ``body(_:holding:on:)``.
    static func json(large bytes: ByteBuffer, holding place: RequestLimit.Place, _ context: ServerContext) -> Response {
        var response = json(bytes: ByteBuffer())
        response.body = body(bytes, holding: place, on: context.channel.eventLoop)
        return response
    }

    /// Maximum size of a piece of a body, bytes. Bodies up to it are one piece: connections are limited.
    static let pieceSize = 64 * 1024

    /// A body that may be large, for a client that may be slow.
    ///
    /// It is sent in pieces, each after the client has read enough of those before. One buffer would be kept in the
    /// connection after the handler has ended, so that nothing would limit the number of answers that no client reads;
    /// and a connection with a client that reads slowly would look like one that is stalled, as all of the buffer is
    /// one write (`StalledWriteLimit`).
    ///
    /// - Parameters:
    ///   - place: held until the last piece was sent, or the client has gone. Not held for one piece.
    ///   - eventLoop: of the connection. Only there it is known whether the client reads: a writer that is elsewhere
    ///     would take all pieces before it learns that it must wait.
    static func body(
        _ bytes: ByteBuffer,
        holding place: RequestLimit.Place,
        on eventLoop: any EventLoop
    ) -> ResponseBody {
        if bytes.readableBytes <= pieceSize { return ResponseBody(byteBuffer: bytes) }
        return ResponseBody(contentLength: bytes.readableBytes) { (writer) async throws in
            defer { withExtendedLifetime(place) {} }
            var rest = bytes
            while rest.readableBytes > 0,
                let piece = rest.readSlice(length: min(rest.readableBytes, pieceSize))
            {
                try await writer.write(piece)
                try await eventLoop.submit {}.get()
            }
            try await writer.finish(nil)
        }
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
