extension ImageProcessors {
    /// Several processors as one, in their order. The first that fails ends it; what each of them makes has the limits
    /// of results.
    public struct Composition: ImageProcessing, Hashable, CustomStringConvertible {
        private let processors: [any ImageProcessing]

        /// - Parameter processors: a composition among them counts as what it consists of.
        public init(_ processors: [any ImageProcessing]) {
            self.processors = processors.flatMap { ($0 as? Composition)?.processors ?? [$0] }
        }

        public var identifier: String {
            "megaton/composition?" + processors.map { ImageProcessors.text($0.identifier) }.joined(separator: ",")
        }

        public var description: String { "Composition(processors: \(processors))" }

        public func process(_ image: PlatformImage) -> PlatformImage? {
            processors.reduce(image as PlatformImage?) { image, processor in image.flatMap(processor.process) }
        }

        public func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            try processors.reduce(container) { container, processor in
                try processor.step(on: container, context)
            }
        }

        public static func == (one: Composition, other: Composition) -> Bool {
            one.processors.map(\.hashableIdentifier) == other.processors.map(\.hashableIdentifier)
        }

        public func hash(into hasher: inout Hasher) { hasher.combine(processors.map(\.hashableIdentifier)) }
    }
}
