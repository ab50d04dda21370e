public import Foundation

/// Makes bytes of a picture: Nuke's protocol. Called on a render thread.
public protocol ImageEncoding: Sendable {
    /// Nil or no bytes: nothing is kept.
    func encode(_ image: PlatformImage) -> Data?

    /// For those who need to know more than the pixels, or who can say why it cannot be done.
    func encode(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data?
}

extension ImageEncoding {
    public func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data? {
        encode(container.image)
    }
}
