/// Makes a picture of a picture: Nuke's protocol.
///
/// `process` is called on a render thread, for several pictures at a time. What takes long asks its context now and
/// then whether it must end.
public protocol ImageProcessing: Sendable {
    /// - Returns: nil where it cannot be done: `.processingFailed`.
    func process(_ image: PlatformImage) -> PlatformImage?

    /// For those who need to know more than the pixels, or who can say why it cannot be done.
    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer

    /// Stands for everything that changes a pixel: two processors with the same identifier make the same picture, also
    /// in caches, and in other processes.
    var identifier: String { get }

    /// For comparing within the process; the identifier unless it is expensive.
    var hashableIdentifier: AnyHashable { get }
}

extension ImageProcessing {
    public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        guard let image = process(container.image) else {
            throw ImagePipeline.Error(.processingFailed, "\(identifier) gave no picture.")
        }
        var container = container
        container.image = image
        return container
    }

    public var hashableIdentifier: AnyHashable { identifier }

    /// One step on the way to a result: not begun once the time is over, and what it makes is within the limits,
    /// whoever has written the processor. A picture that is passed on as it came was looked at before.
    ///
    /// - Throws: what the processor throws; `.outputTooLarge`, `.renderTimedOut`, `.cancelled`.
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
