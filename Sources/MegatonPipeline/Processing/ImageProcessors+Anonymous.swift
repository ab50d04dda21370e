extension ImageProcessors {
    /// A closure as a processor.
    public struct Anonymous: ImageProcessing, CustomStringConvertible {
        private let id: String
        private let closure: @Sendable (PlatformImage) -> PlatformImage?

        /// - Parameters:
        ///   - id: the only thing that tells it from others, also in caches that outlive the process: to be changed
        ///     with what the closure does.
        ///   - closure: gives nil where it cannot be done.
        public init(id: String, _ closure: @escaping @Sendable (PlatformImage) -> PlatformImage?) {
            self.id = id
            self.closure = closure
        }

        public var identifier: String { ImageProcessors.identifier("anonymous", ["id": ImageProcessors.text(id)]) }

        public var description: String { "AnonymousProcessor(identifier: \(id))" }

        public func process(_ image: PlatformImage) -> PlatformImage? { closure(image) }
    }
}
