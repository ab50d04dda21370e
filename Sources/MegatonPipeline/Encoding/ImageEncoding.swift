public import Foundation

/// Makes bytes of a picture: Nuke's protocol. Called on a render thread.
public protocol ImageEncoding: Sendable {
    /// Nil or no bytes: nothing is kept.
    func encode(_ image: PlatformImage) -> Data?

    /// For those who need to know more than the pixels.
    func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data?

    /// For those who can say why it cannot be done: the pipeline calls this one.
    func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data?
}

extension ImageEncoding {
    public func encode(_ container: ImageContainer, context: ImageEncodingContext) -> Data? {
        encode(container.image)
    }

    public func encoded(_ container: ImageContainer, context: ImageEncodingContext) throws -> Data? {
        encode(container, context: context)
    }
}
