@testable import MegatonPipeline
@testable import MegatonRendering

/// A processor whose work is a closure.
struct TestProcessor: ImageProcessing {
    let identifier: String
    var work: @Sendable (PlatformImage) throws -> PlatformImage? = { $0 }

    func process(_ image: PlatformImage) -> PlatformImage? { nil }

    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        guard let image = try work(container.image) else {
            return try PlainProcessor(identifier: identifier).process(container, context: context)
        }
        return container.map { _ in image }
    }

    /// A processor that returns nil.
    private struct PlainProcessor: ImageProcessing {
        let identifier: String

        func process(_ image: PlatformImage) -> PlatformImage? { nil }
    }
}
