public import Foundation

/// A decoded image with its metadata.
public struct ImageContainer: Sendable {
    /// The decoded pixels.
    public var image: PlatformImage
    /// The format from which the image was decoded.
    public var type: AssetType?
    /// Whether the image comes from an unfinished download.
    public var isPreview: Bool
    /// The encoded bytes, if the decoder keeps them: those of animations, and of formats that it only passes through.
    public var data: Data?
    /// Custom values of decoders and processors.
    public var userInfo: [String: any Sendable]
    /// Nil if the program created the image itself.
    var provenance: ImageProvenance?

    /// Creates a container.
    public init(
        image: PlatformImage,
        type: AssetType? = nil,
        isPreview: Bool = false,
        data: Data? = nil,
        userInfo: [String: any Sendable] = [:]
    ) {
        self.image = image
        self.type = type
        self.isPreview = isPreview
        self.data = data
        self.userInfo = userInfo
    }

    /// A copy with another provenance.
    func made(of provenance: ImageProvenance?) -> ImageContainer {
        var container = self
        container.provenance = provenance
        return container
    }

    /// A copy with a transformed image.
    public func map(_ transform: (PlatformImage) throws -> PlatformImage) rethrows -> ImageContainer {
        var container = self
        container.image = try transform(image)
        return container
    }
}
