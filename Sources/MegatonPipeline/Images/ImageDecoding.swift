public import Foundation
public import FoundationNetworking

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

/// The facts by which a decoder is chosen.
public struct ImageDecodingContext: Sendable {
    /// The request of the image.
    public var request: ImageRequest
    /// All bytes, or those received so far.
    public var data: Data
    /// Whether all bytes have arrived.
    public var isCompleted: Bool
    /// The response of the origin, if the bytes come from there.
    public var urlResponse: URLResponse?
    /// The cache from which the bytes come; nil for the origin.
    public var cacheType: ImageResponse.CacheType?
    /// Policy for previews before all bytes have arrived; nil is `ImagePreviewPolicy.default(for:)`.
    public var previewPolicy: ImagePreviewPolicy?

    /// Creates a context.
    public init(
        request: ImageRequest,
        data: Data,
        isCompleted: Bool = true,
        urlResponse: URLResponse? = nil,
        cacheType: ImageResponse.CacheType? = nil,
        previewPolicy: ImagePreviewPolicy? = nil
    ) {
        self.request = request
        self.data = data
        self.isCompleted = isCompleted
        self.urlResponse = urlResponse
        self.cacheType = cacheType
        self.previewPolicy = previewPolicy
    }
}

/// The previews of an image that is still downloading: Nuke's policies.
public enum ImagePreviewPolicy: String, Sendable, CaseIterable {
    /// A preview after each scan of a progressive JPEG; for baseline JPEGs, the rows received so far.
    case incremental
    /// The small image that cameras embed in EXIF, once.
    case thumbnail
    case disabled

    /// Incremental for progressive JPEGs, whose first scans show the whole image; disabled otherwise.
    ///
    /// Nuke also previews the first frame of a GIF; here that would be the whole image.
    public static func `default`(for data: Data) -> ImagePreviewPolicy {
        JPEGScans(data).isProgressive ? .incremental : .disabled
    }
}
