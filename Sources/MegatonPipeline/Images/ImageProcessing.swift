/// Transforms an image: Nuke's protocol.
///
/// `process` is called on a render thread, for several images at the same time. Long-running work should poll the
/// context's `mustEnd`.
public protocol ImageProcessing: Sendable {
    /// Transforms the pixels of an image.
    ///
    /// - Returns: The result; nil fails the request with `.processingFailed`.
    func process(_ image: PlatformImage) -> PlatformImage?

    /// Transforms an image with access to its container and context. Implement this one if the processor needs more
    /// than the pixels, or if it can report the reason of a failure.
    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer

    /// Identifies everything that changes a pixel. Two processors with the same identifier must produce the same image,
    /// also across processes and in caches.
    var identifier: String { get }

    /// Compares processors within this process. Equals the identifier unless that is expensive to build.
    var hashableIdentifier: AnyHashable { get }
}

extension ImageProcessing {
    public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        guard let image = process(container.image) else {
            throw ImageError(.processingFailed, "\(identifier) returned no image.")
        }
        var container = container
        container.image = image
        return container
    }

    public var hashableIdentifier: AnyHashable { identifier }

    /// Runs one processor of a request. Checks the time before it, and the size of its result after it, for processors
    /// of any author. An image that is returned unchanged was checked before.
    ///
    /// - Throws: The processor's errors; `.outputTooLarge`, `.renderTimedOut`, `.cancelled`.
    func step(on container: ImageContainer, _ context: ImageProcessingContext) throws -> ImageContainer {
        try context.checkTime()
        let result = try process(container, context: context)
        if result.image === container.image { return result }
        let size = result.image.size
        try context.bounds.checkOutput(Double(size.width), Double(size.height), identifier)
        return result
    }
}

extension ImageProcessing where Self: Hashable {
    public var hashableIdentifier: AnyHashable { self }
}
