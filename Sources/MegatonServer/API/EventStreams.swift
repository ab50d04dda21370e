internal import Hummingbird
internal import HummingbirdCore
internal import NIOCore

/// The streams of server-sent events of a route: their number is limited, and so is the time for which a client may
/// leave one of them unread.
struct EventStreams: Sendable {
    private let places: RequestLimit
    private let writeLimit: Duration

    /// - Parameters:
    ///   - maximum: number of streams at a time.
    ///   - kind: the kind of streams, in the plural.
    ///   - writeLimit: time for which a client may leave a piece of an event unread.
    init(_ maximum: Int, of kind: String, writeLimit: Duration = StalledWriteLimit.usual) {
        places = RequestLimit(maximum, of: kind)
        self.writeLimit = writeLimit
    }

    /// Takes a place for a stream.
    ///
    /// - Throws: an error with the status 503 if there is none, and with 400 if the request has a body: the framework
    ///   would wait without an end for a reader of the body.
    func enter(_ request: Request) throws(APIError) -> RequestLimit.Place {
        let length = request.field("Content-Length") ?? "0"
        guard length == "0", request.field("Transfer-Encoding") == nil else {
            throw APIError(.badRequest, "A request for events has no body: send it without one.")
        }
        return try places.enter()
    }

    /// A stream, which is cancelled as soon as its client has gone.
    ///
    /// - Parameters:
    ///   - place: held until the stream has ended.
    ///   - write: writes the events; the stream ends when it returns.
    func response(
        _ request: Request,
        _ context: ServerContext,
        place: RequestLimit.Place,
        write: @escaping @Sendable (inout EventWriter) async throws -> Void
    ) -> Response {
        let (channel, writeLimit) = (context.channel, writeLimit)
        var headers: HTTPFields = [.contentType: "text/event-stream", .cacheControl: "no-store"]
        // A proxy that buffers would hold events back.
        headers.set("X-Accel-Buffering", "no")
        return Response(
            status: .ok,
            headers: headers,
            body: ResponseBody { (writer) async throws in
                defer { withExtendedLifetime(place) {} }
                var events = EventWriter(writer, channel: channel, limit: writeLimit)
                try await request.body.consumeWithCancellationOnInboundClose { _ in
                    try await write(&events)
                }
                try await events.finish()
            }
        )
    }
}

/// Writes the events of one stream.
///
/// A write waits for a client that does not read. The framework ends such a wait only with the connection, which is
/// closed here after a time limit. The connection keeps a few pieces at most for a client that reads slowly: only on
/// the event loop it is known whether the client reads, and a writer that is elsewhere would hand all pieces over
/// before it learns that it must wait.
struct EventWriter {
    /// Maximum number of bytes that a client has to read within the limit.
    private static let pieceSize = 64 * 1024

    private var writer: any ResponseBodyWriter
    private let channel: any Channel
    private let limit: TimeAmount

    init(_ writer: any ResponseBodyWriter, channel: any Channel, limit: Duration) {
        self.writer = writer
        self.channel = channel
        self.limit = TimeAmount(limit)
    }

    /// - Throws: if the client has gone, or has read nothing for too long.
    mutating func write(_ events: ByteBuffer) async throws {
        var rest = events
        while rest.readableBytes > 0, let piece = rest.readSlice(length: min(rest.readableBytes, Self.pieceSize)) {
            let end = scheduleClose()
            defer { end.cancel() }
            try await writer.write(piece)
            try await channel.eventLoop.submit {}.get()
        }
    }

    /// Ends the response.
    mutating func finish() async throws {
        let end = scheduleClose()
        defer { end.cancel() }
        try await writer.finish(nil)
    }

    private func scheduleClose() -> Scheduled<Void> {
        let channel = channel
        return channel.eventLoop.scheduleTask(in: limit) { channel.close(mode: .all, promise: nil) }
    }
}
