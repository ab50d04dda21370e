@testable import MegatonPipeline

/// Counts itself by its name, and signs the picture.
struct CountingProcessor: ImageProcessing {
    let id: String
    let counts: TaskTestBox<[String: Int]>

    var identifier: String { "test/\(id)" }

    func process(_ image: PlatformImage) -> PlatformImage? { image }

    func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
        counts.withLock { $0[id, default: 0] += 1 }
        // Made anew, as a processor may: nothing but the picture is taken over.
        return ImageContainer(image: container.image, userInfo: ["steps": container.steps + [id]])
    }
}

extension ImageContainer {
    /// Which processors have signed it.
    var steps: [String] { userInfo["steps"] as? [String] ?? [] }
}
