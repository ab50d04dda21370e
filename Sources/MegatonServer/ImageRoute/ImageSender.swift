internal import Foundation
internal import HummingbirdCore
internal import MegatonCore
internal import NIOCore
import Synchronization

/// Makes the bodies of images, and limits the memory of those that clients have not received yet.
///
/// Large images are sent in pieces: a response that is one buffer has ended for the framework as soon as it is
/// buffered, so that its connection would count as idle while the client still reads, and a shutdown would close it at
/// once.
final class ImageSender: Sendable {
    /// Memory of an image, which is free again when its last reference has gone: also if the image was never sent.
    private final class Share: Sendable {
        private let sender: ImageSender
        private let count: Int

        init(_ sender: ImageSender, _ count: Int) { (self.sender, self.count) = (sender, count) }

        deinit { sender.used.withLock { $0 -= count } }
    }

    /// Maximum size of a piece, bytes. Images up to it are one piece, and are not counted: connections are limited.
    static let pieceSize = 64 << 10

    private let maximum: Int
    /// Bytes of the images that are being sent.
    private let used = Mutex(0)

    /// - Parameter maximum: bytes of all images that are sent at a time. A larger image is sent while no other one is.
    init(maximum: Int) { self.maximum = maximum }

    /// The body of an image, or of a part of one.
    ///
    /// - Parameter eventLoop: of the connection. Only there it is known whether the client reads: a writer that is
    ///   elsewhere would take all pieces before it learns that it must wait.
    /// - Throws: an error with the status 503 if there is no memory for it.
    func body(_ data: Data, on eventLoop: any EventLoop) throws(APIError) -> ResponseBody {
        if data.count <= Self.pieceSize { return Self.sharedBody(data, on: eventLoop) }
        let isFree = used.withLock { used in
            guard used == 0 || used + data.count <= maximum else { return false }
            used += data.count
            return true
        }
        guard isFree else {
            throw .unavailable(
                "The server is sending as many bytes of images as it allows; try again after the time of Retry-After."
            )
        }
        return Self.body(of: data, holding: Share(self, data.count), on: eventLoop)
    }

    /// The body of an image that no limit counts, because all responses share its bytes: each connection has a few
    /// pieces.
    ///
    /// - Parameter eventLoop: of the connection, as for other images.
    static func sharedBody(_ data: Data, on eventLoop: any EventLoop) -> ResponseBody {
        body(of: data, holding: nil, on: eventLoop)
    }

    private static func body(of data: Data, holding share: Share?, on eventLoop: any EventLoop) -> ResponseBody {
        if data.count <= pieceSize { return ResponseBody(byteBuffer: ByteBuffer(bytes: data)) }
        return ResponseBody(contentLength: data.count) { (writer) async throws in
            defer { withExtendedLifetime(share) {} }
            var rest = data
            while !rest.isEmpty {
                try await writer.write(ByteBuffer(bytes: rest.prefix(Self.pieceSize)))
                rest = rest.dropFirst(Self.pieceSize)
                try await eventLoop.submit {}.get()
            }
            try await writer.finish(nil)
        }
    }
}
