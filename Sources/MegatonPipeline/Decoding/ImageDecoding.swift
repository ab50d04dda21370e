public import Foundation

/// Makes a picture of bytes: Nuke's protocol. Called on a render thread.
public protocol ImageDecoding: Sendable {
    /// Whether it takes a render thread; one that does next to nothing need not wait for one.
    var isAsynchronous: Bool { get }

    /// - Throws: what is wrong with the bytes; an error of another type than the pipeline's becomes `.corruptImage`.
    func decode(_ data: Data) throws -> ImageContainer

    /// A preview of what has come so far, or nil: not yet, or never. One at a time; `decode` may be called before the
    /// last one has ended.
    func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer?
}

extension ImageDecoding {
    public var isAsynchronous: Bool { true }
    public func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? { nil }
}
