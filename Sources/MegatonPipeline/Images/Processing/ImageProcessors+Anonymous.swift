extension ImageProcessors {
    /// A processor that runs a closure.
    public struct Anonymous: ImageProcessing, CustomStringConvertible {
        private let id: String
        private let closure: @Sendable (PlatformImage) -> PlatformImage?

        /// - Parameters:
        ///   - id: Identifies the closure, also in caches that outlive the process. Change it whenever the closure's
        ///     behavior changes.
        ///   - closure: Returns the result, or nil if it fails.
        public init(id: String, _ closure: @escaping @Sendable (PlatformImage) -> PlatformImage?) {
            self.id = id
            self.closure = closure
        }

        public var identifier: String { ImageProcessors.identifier("anonymous", ["id": ImageProcessors.text(id)]) }

        public var description: String { "AnonymousProcessor(identifier: \(id))" }

        public func process(_ image: PlatformImage) -> PlatformImage? { closure(image) }
    }
}
