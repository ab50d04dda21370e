@testable import MegatonPipeline
@testable import MegatonRendering

/// Counts its calls by name, and adds its name to the image's steps.
struct CountingProcessor: ImageProcessing {
    let id: String
    let counts: TaskTestBox<[String: Int]>

    var identifier: String { "test/\(id)" }

    func process(_ image: PlatformImage) -> PlatformImage? { image }

    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        counts.withLock { $0[id, default: 0] += 1 }
        // A new container, as a processor may return: only the image is carried over.
        return ImageContainer(image: container.image, userInfo: ["steps": container.steps + [id]])
    }
}

extension ImageContainer {
    /// Names of the processors that handled the image, in order.
    var steps: [String] { userInfo["steps"] as? [String] ?? [] }
}
