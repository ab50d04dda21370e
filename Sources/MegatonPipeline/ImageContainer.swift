public import Foundation

/// A decoded picture with what is known of it.
public struct ImageContainer: Sendable {
    /// Its pixels.
    public var image: PlatformImage
    /// What it was decoded from.
    public var type: AssetType?
    /// Whether it is of an unfinished download.
    public var isPreview: Bool
    /// The bytes that it was decoded from, where the decoder keeps them: of animations, and of what it only passes on.
    public var data: Data?
    /// For decoders and processors.
    public var userInfo: [String: any Sendable]
    /// Nil where a program has made it.
    var provenance: ImageProvenance?

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

    /// The same, with what it was made of.
    func made(of provenance: ImageProvenance?) -> ImageContainer {
        var container = self
        container.provenance = provenance
        return container
    }

    /// The same with another picture.
    public func map(_ transform: (PlatformImage) throws -> PlatformImage) rethrows -> ImageContainer {
        var container = self
        container.image = try transform(image)
        return container
    }
}
