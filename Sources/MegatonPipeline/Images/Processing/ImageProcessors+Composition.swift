extension ImageProcessors {
    /// Runs several processors in order. The first failure ends the sequence. Each intermediate result must be within
    /// the output limits.
    public struct Composition: ImageProcessing, Hashable, CustomStringConvertible {
        private let processors: [any ImageProcessing]

        /// - Parameter processors: Nested compositions are flattened.
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
