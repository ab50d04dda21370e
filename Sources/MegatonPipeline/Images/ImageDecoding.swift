public import Foundation

/// Decodes bytes to an image: Nuke's protocol. Called on a render thread.
public protocol ImageDecoding: Sendable {
    /// Whether decoding takes a render thread; false for decoders that take almost no time.
    var isAsynchronous: Bool { get }

    /// - Throws: An error that describes the problem with the bytes. Errors other than `ImageError` are
    ///   reported as `.corruptImage`.
    func decode(_ data: Data) throws -> ImageContainer

    /// Decodes a preview of the bytes received so far. Called for one preview at a time; `decode` may be called before
    /// the last preview has finished.
    ///
    /// - Returns: nil if no preview is possible, now or ever.
    func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer?
}

extension ImageDecoding {
    public var isAsynchronous: Bool { true }
    public func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? { nil }
}
