@testable import MegatonPipeline
@testable import MegatonRendering

/// Passes its context to a test, and returns the image unchanged.
struct ContextProcessor: ImageProcessing {
    let identifier = "test/context"
    let look: @Sendable (ImageProcessingContext) -> Void

    init(_ look: @escaping @Sendable (ImageProcessingContext) -> Void) { self.look = look }

    func process(_ image: PlatformImage) -> PlatformImage? { image }

    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        look(context)
        return container
    }
}
