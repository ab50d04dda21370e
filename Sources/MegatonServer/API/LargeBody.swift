internal import HummingbirdCore
internal import NIOCore

/// Bodies of answers that may be large, for clients that may be slow.
///
/// They are sent in pieces, each after the client has read enough of those before. One buffer would be kept in the
/// connection after the handler has ended, so that nothing would limit the number of answers that no client reads; and
/// a connection with a client that reads slowly would look like one that is stalled, as all of the buffer is one write
/// (`StalledWriteLimit`).
enum LargeBody {
    /// Maximum size of a piece, bytes. Answers up to it are one piece: connections are limited.
    static let pieceSize = 64 * 1024

    /// - Parameter place: held until the last piece was sent, or the client has gone. Not held for one piece.
    static func body(_ bytes: ByteBuffer, holding place: RequestLimit.Place) -> ResponseBody {
        if bytes.readableBytes <= pieceSize { return ResponseBody(byteBuffer: bytes) }
        return ResponseBody(contentLength: bytes.readableBytes) { (writer) async throws in
            defer { withExtendedLifetime(place) {} }
            var rest = bytes
            while rest.readableBytes > 0,
                let piece = rest.readSlice(length: min(rest.readableBytes, pieceSize))
            {
                try await writer.write(piece)
            }
            try await writer.finish(nil)
        }
    }
}
